// Package fabricsource keeps views true to etcd over the watch fabric. It listens to watch messages
// on the bus and accepts each statement by one rule (same history, prev <= position < revision). It
// asks the apiservers for whatever it lacks, and lists and watches over HTTP while no apiserver
// answers.
//
// The rules live in machine, which does no I/O and gets the time from its caller, so that it can be
// simulated. follower sends the machine's asks and passes it what arrives.
package fabricsource
