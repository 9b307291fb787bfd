// Package respond answers the asks of informers from the feeds, over the bus: what changed in a
// view since a revision, or the whole view. It implements the rules R1 to R4 of the watch fabric.
// All apiservers answer, as one queue group.
//
// Like a watch message, an answer is a statement of fact: it holds forever, whichever apiserver
// sends it. So an answer is encoded once and sent to every client that asks the same within a
// second.
package respond
