// Package metadata validates the metadata that every kind has.
package metadata
