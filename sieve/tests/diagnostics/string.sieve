# option: limit string 10
require "fileinto";
fileinto "A mailbox with a long name";
