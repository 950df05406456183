# option: limit nesting 3
if true { if true { if not true { keep; } } }
if true { if true { if true { if true { keep; } } } }
