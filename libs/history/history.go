// Package history identifies the histories of etcd clusters.
package history

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Header is the HTTP response header in which Garboard's apiserver sends the history of the
// revisions in a list or a watch, in the form of ID.String. Other servers do not send it.
const Header = "Garboard-History"

// ID identifies one history: one life of one etcd cluster. Revisions of different histories cannot
// be compared. The zero ID means that the history is unknown.
type ID struct {
	// Created is when the history began, in nanoseconds since the Unix epoch.
	Created int64 `json:"created"`
	// Nonce distinguishes histories that began at the same instant.
	Nonce uint64 `json:"nonce"`
}

// Compare returns a negative number if id is older than other, 0 if both are the same, and a
// positive number otherwise.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Created, other.Created), cmp.Compare(id.Nonce, other.Nonce))
}

// Before reports whether id is older than other.
func (id ID) Before(other ID) bool { return id.Compare(other) < 0 }

// String returns Created, a dash and Nonce in 16 hexadecimal digits; empty for the zero ID.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return fmt.Sprintf("%d-%016x", id.Created, id.Nonce)
}

// Parse parses what String returned. An empty text is an error.
func Parse(text string) (ID, error) {
	created, nonce, _ := strings.Cut(text, "-")
	var id ID
	var err error
	if id.Created, err = strconv.ParseInt(created, 10, 64); err == nil {
		id.Nonce, err = strconv.ParseUint(nonce, 16, 64)
	}
	if err != nil || id == (ID{}) {
		return ID{}, fmt.Errorf("%q is not a history", text)
	}
	return id, nil
}
