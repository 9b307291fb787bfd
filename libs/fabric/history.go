package fabric

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// HistoryHeader is the HTTP response header in which Garboard's apiserver sends the history of the
// revisions in a list or a watch, in the form of History.String. Other servers do not send it.
const HistoryHeader = "Garboard-History"

// HistoryGrace is how long a reader may hear only of older histories than its own before it drops
// what it knows. It is longer than clocks differ, and than a server takes to learn of a newer
// history.
const HistoryGrace = time.Minute

// History identifies one history: one life of one etcd cluster. Revisions of different histories
// cannot be compared. The zero History means that the history is unknown.
type History struct {
	// Created is when the history began, in nanoseconds since the Unix epoch.
	Created int64 `json:"created"`
	// Nonce distinguishes histories that began at the same instant.
	Nonce uint64 `json:"nonce"`
}

// HistoryOf returns the history that a message names; the zero History if it names none.
func HistoryOf(h *watchv1.History) History {
	return History{Created: h.GetCreated(), Nonce: h.GetNonce()}
}

// ParseHistory parses what String returned. An empty text is an error.
func ParseHistory(text string) (History, error) {
	created, nonce, _ := strings.Cut(text, "-")
	var h History
	var err error
	if h.Created, err = strconv.ParseInt(created, 10, 64); err == nil {
		h.Nonce, err = strconv.ParseUint(nonce, 16, 64)
	}
	if err != nil || h.IsZero() {
		return History{}, fmt.Errorf("%q is not a history", text)
	}
	return h, nil
}

// IsZero reports whether the history is unknown.
func (h History) IsZero() bool { return h == History{} }

// Compare returns -1 if h is older than other, 0 if both are the same, and 1 otherwise.
func (h History) Compare(other History) int {
	return cmp.Or(cmp.Compare(h.Created, other.Created), cmp.Compare(h.Nonce, other.Nonce))
}

// Before reports whether h is older than other.
func (h History) Before(other History) bool { return h.Compare(other) < 0 }

// String returns Created, a dash and Nonce in 16 hexadecimal digits; empty for the zero History.
func (h History) String() string {
	if h.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d-%016x", h.Created, h.Nonce)
}

// Wire returns the history in the form of messages; nil for the zero History.
func (h History) Wire() *watchv1.History {
	if h.IsZero() {
		return nil
	}
	return &watchv1.History{Created: h.Created, Nonce: h.Nonce}
}
