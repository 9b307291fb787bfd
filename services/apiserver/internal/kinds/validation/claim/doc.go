// Package claim validates what a storage claim asks for, in claims and in templates of claims.
package claim
