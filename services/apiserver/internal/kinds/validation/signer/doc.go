// Package signer validates the names of signers of certificates, and what belongs to a signer.
package signer
