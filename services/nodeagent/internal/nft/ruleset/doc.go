// Package ruleset has the nouns of the node's packet rules: families, sets and their keys, chains, rules
// and the expressions of rules. They are values without behaviour: for Services, package rules creates
// them and package ledger merges and compares them. Package nft writes them to the kernel.
//
// No name of an API object is part of a value that the kernel interprets. Addresses are netip
// values, the names of chains and sets are hashes (see Name), and comments are sanitised (see
// Comment). The text form of an expression has nft's syntax. It serves digests, tests and people.
package ruleset
