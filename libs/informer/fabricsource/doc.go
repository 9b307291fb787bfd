// Package fabricsource keeps views true to etcd over the watch fabric: it listens to watch messages
// on the bus, accepts each statement by the one rule (same history, prev <= position <
// revision), asks the apiservers for whatever it lacks, and lists and watches over HTTP while
// nobody answers.
//
// The rules live in machine, which does no I/O and is told the time, so that they can be
// simulated; follower carries its asks and hands it what comes.
package fabricsource
