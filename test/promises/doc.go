// Package promises holds tests that what the API says of itself is true of the services behind it.
package promises
