// Package watcher reports which informers follow which views, and how far they are behind.
package watcher

import (
	"encoding/json"
	"net/http"

	"github.com/garboard/garboard/libs/fabric"
)

// The carriers of changes.
const (
	ViaNATS = "NATS"
	ViaHTTP = "HTTP"
)

// Status reports what one informer follows, and how far it is behind.
type Status struct {
	// Service is the service that follows.
	Service string `json:"service"`
	// Group, Version and Resource name the resource that is followed.
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// View is the part of the resource that is followed.
	View fabric.View `json:"view"`
	// Started, Synced and Stopped are the state of the informer.
	Started bool `json:"started"`
	Synced  bool `json:"synced"`
	Stopped bool `json:"stopped,omitempty"`
	// Via is the carrier of the changes at this moment: NATS, or HTTP, which takes over while NATS
	// does not answer; empty if that is not known.
	Via string `json:"via,omitempty"`
	// Why says why HTTP has taken over from NATS; empty otherwise.
	Why string `json:"why,omitempty"`
	// Objects is the number of objects in the store, which is the exact content at Revision.
	Objects  int   `json:"objects"`
	Revision int64 `json:"revision"`
	// Queued is the number of changes that the store does not have yet.
	Queued int `json:"queued"`
	// LagRevisions is how far the newest revision that the informer heard of is above the store's.
	// LagSeconds is for how long it has been above.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// SilentSeconds is how long ago the follower last reported anything; -1 if it never did. The
	// follower hears of an unchanged view every few seconds, so a longer silence means a fault.
	SilentSeconds float64 `json:"silentSeconds"`
	// Handlers are the handlers of the informer.
	Handlers []Handler `json:"handlers"`
}

// Handler reports how far one handler is behind the store of its informer.
type Handler struct {
	// Name is the handler's name or Go type.
	Name string `json:"name"`
	// Synced reports whether the handler has returned from its initial list.
	Synced bool `json:"synced"`
	// Pending is the number of waiting calls, without the running one.
	Pending int `json:"pending"`
	// LagRevisions and LagSeconds count from the oldest change from which the handler has not
	// returned; 0 if there is none.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// Coalesced counts the updates that were merged into one with an earlier pending update.
	Coalesced int `json:"coalesced"`
	// Panics counts the calls that ended in a panic.
	Panics int `json:"panics"`
}

// Path is the HTTP path at which every service serves its watchers.
const Path = "/debug/garboard/watchers"

// Serve serves the concatenated results of sources, such as Factory.Watchers, as a JSON array, for
// tools that show which services follow which views and how far they are behind.
func Serve(sources ...func() []Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		watchers := []Status{}
		for _, source := range sources {
			watchers = append(watchers, source()...)
		}
		body, err := json.Marshal(watchers)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n')) // The reader is gone, so the error has no receiver.
	})
}
