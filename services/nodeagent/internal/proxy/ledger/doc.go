// Package ledger keeps what the table of one family is to have: the skeleton and one ruleset.Unit
// for each Service. It returns each difference as a ruleset.Change, whose size depends only on what
// changed, and the differences to what the kernel has, for a repair.
//
// Several Services may claim one frontend. The claim of the lowest rank wins, then that of the
// oldest Service, then the order of names. The winner decides everything about the frontend.
package ledger
