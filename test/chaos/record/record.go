// Package record defines what the watching program of the chaos test reports to the harness: one
// JSON document per line for everything that an informer received, in order.
package record

import "github.com/garboard/garboard/libs/informer"

// Types of lines.
const (
	// Begin names the view that an informer follows.
	Begin = "begin"
	// Replace and Apply are statements that the follower has accepted.
	Replace, Apply = "replace", "apply"
	// Add, Update and Delete are calls of a handler; an update has the old and the new object.
	Add, Update, Delete = "add", "update", "delete"
	// Content is the content of the store, requested by DumpCommand.
	Content = "content"
)

// Commands that the watching program reads, one per line. A duration follows BlockCommand and
// StallCommand.
const (
	// DumpCommand requests the content of every informer.
	DumpCommand = "dump"
	// BlockCommand makes handlers block for a while.
	BlockCommand = "block"
	// StallCommand stops the consumption of statements for a while, so that messages pile up.
	StallCommand = "stall"
)

// Event is one line.
type Event struct {
	// Process and Informer identify the informer.
	Process  string `json:"p,omitempty"`
	Informer int    `json:"i"`
	// What is one of the constants above.
	What string `json:"w"`
	// Resource and View say what the informer follows; in Begin only.
	Resource string         `json:"res,omitempty"`
	View     *informer.View `json:"view,omitempty"`
	// Revision belongs to the statement or the content.
	Revision int64 `json:"r,omitempty"`
	// Objects are the objects of the event.
	Objects []Object `json:"o,omitempty"`
}

// Object is an object in the form that the checker needs.
type Object struct {
	// Key is namespace/name.
	Key string `json:"k"`
	// UID is empty if it is unknown.
	UID string `json:"u,omitempty"`
	// Revision is the object's resourceVersion.
	Revision int64 `json:"r,omitempty"`
	// Deleted means that the object has left the view.
	Deleted bool `json:"d,omitempty"`
	// Hash is the hash of the whole object; in Content only.
	Hash uint64 `json:"h,omitempty"`
}
