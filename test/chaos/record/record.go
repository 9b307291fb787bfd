// Package record is what the watching program of the chaos test tells the harness: one JSON
// document a line for everything that an informer was told of, in order.
package record

import "github.com/garboard/garboard/libs/informer"

// What a line says.
const (
	// Begin says which view an informer follows.
	Begin = "begin"
	// Replace and Apply are statements that the follower has accepted.
	Replace, Apply = "replace", "apply"
	// Add, Update and Delete are calls of a handler; an update has the old and the new object.
	Add, Update, Delete = "add", "update", "delete"
	// Content is what the store holds, asked for by DumpCommand.
	Content = "content"
)

// Commands that the watching program reads, one a line. BlockCommand and StallCommand are
// followed by a duration.
const (
	// DumpCommand has the content of every informer told.
	DumpCommand = "dump"
	// BlockCommand has handlers not return for a while.
	BlockCommand = "block"
	// StallCommand has statements not taken for a while, so that messages pile up before them.
	StallCommand = "stall"
)

// Event is one line.
type Event struct {
	// Process and Informer say who.
	Process  string `json:"p,omitempty"`
	Informer int    `json:"i"`
	// What is one of the constants.
	What string `json:"w"`
	// Resource and View are what is followed; in Begin only.
	Resource string         `json:"res,omitempty"`
	View     *informer.View `json:"view,omitempty"`
	// Revision is that of a statement or of the content.
	Revision int64 `json:"r,omitempty"`
	// Objects are what it is about.
	Objects []Object `json:"o,omitempty"`
}

// Object is an object as the checker needs it.
type Object struct {
	// Key is namespace/name.
	Key string `json:"k"`
	// UID is empty if it is not known.
	UID string `json:"u,omitempty"`
	// Revision is the object's resourceVersion.
	Revision int64 `json:"r,omitempty"`
	// Deleted says that it is gone from the view.
	Deleted bool `json:"d,omitempty"`
	// Hash is that of all of the object, in Content only.
	Hash uint64 `json:"h,omitempty"`
}
