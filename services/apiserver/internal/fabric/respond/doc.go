// Package respond answers the asks of informers from the feeds, over the bus: what changed in
// a view since a revision, or the whole view. It follows the rules R1 to R4 of the watch
// fabric. All apiservers answer, as one queue group.
//
// An answer is a statement of fact, as a watch message is: it holds for ever, whoever gives
// it. So answers are encoded once and given to all who ask the same within a second.
package respond
