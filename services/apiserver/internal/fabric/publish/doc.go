// Package publish sends the events of the feeds to the bus, one message for each change, for any
// number of informers. It implements the rules P1 to P7 of the watch fabric.
//
// A message is a statement of fact about one etcd revision, independent of its publisher and of how
// often it is sent. The election only keeps most messages from being sent twice, and the log only
// gives the next publisher a hint where to begin. Correctness depends on neither, and sending never
// waits for the log.
package publish
