// Package conntrack ends UDP connections whose endpoint is gone. The kernel keeps a translated
// connection for as long as datagrams pass, and UDP has nothing to end it: without this, a client
// that goes on sending would never reach another endpoint.
package conntrack
