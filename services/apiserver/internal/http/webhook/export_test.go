package webhook

// UserOf returns the user for HOST:PORT.
var UserOf = (*Credentials).of
