// Package promises tests that what the API reports about itself is true of the services behind it.
package promises
