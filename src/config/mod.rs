//! L6: text to each room's own settings.
