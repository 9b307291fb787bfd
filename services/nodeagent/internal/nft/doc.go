// Package nft writes packet rules to the kernel and reads them back, over netlink. It needs no
// program. A ruleset.Change becomes one transaction, whose cost depends on the size of the change
// only: nothing is read before, and the kernel acknowledges the last message alone.
//
// Every rule carries a tag, which a digest of its chain's rules begins, as its comment. So Read can
// tell rules of ours from those that someone else has added or replaced, after a restart too.
//
// The module sigs.k8s.io/knftables does not serve here: its netlink backend lists the names of
// objects only, and writes by running the program nft, which loads the names of all chains for each
// transaction.
package nft
