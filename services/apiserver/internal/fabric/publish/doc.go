// Package publish sends what the feeds see to the bus, one message for each change, so that
// any number of informers hear of it. It follows the rules P1 to P6 of the watch fabric.
//
// A message is a statement of fact about one etcd revision. Who publishes it, and how often,
// changes nothing: the election only keeps most messages from being sent twice, and the log
// only gives the next publisher a hint where to begin. Neither is needed for correctness, and
// sending never waits for the log.
package publish
