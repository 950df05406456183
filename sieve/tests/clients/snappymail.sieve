# This is SnappyMail sieve script.
# Please don't change anything here.
# RAINLOOP:SIEVE

require ["fileinto","imap4flags"];

/*
BEGIN:FILTER:1a
BEGIN:HEADER
eyJJRCI6IjFhIn0=
END:HEADER
*/
if anyof(
	header :contains ["Subject"] "offer",
	header :is ["From"] "shop@example.org"
)
{
	addflag "\\Seen";
	fileinto "Offers";
	stop;
}
else
{
	/* nothing */
	keep;
}
/* END:FILTER */
