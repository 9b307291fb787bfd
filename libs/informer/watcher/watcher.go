// Package watcher shows who follows what, and how far behind.
package watcher

import (
	"encoding/json"
	"net/http"
)

// What carries changes.
const (
	ViaNATS = "NATS"
	ViaHTTP = "HTTP"
)

// Status says what one informer follows, and how far behind it is.
type Status struct {
	// Service is who follows.
	Service string `json:"service"`
	// Group, Version and Resource are what is followed.
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// View is an informer.View.
	View struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name,omitempty"`
		Scope     string `json:"scope,omitempty"`
	} `json:"view"`
	// Started, Synced and Stopped are where the informer is in its life.
	Started bool `json:"started"`
	Synced  bool `json:"synced"`
	Stopped bool `json:"stopped,omitempty"`
	// Via is what carries the changes at this moment: NATS, or HTTP, which takes over while NATS
	// does not answer; empty if that is not known.
	Via string `json:"via,omitempty"`
	// Objects are in the store, which is the exact content at Revision.
	Objects  int   `json:"objects"`
	Revision int64 `json:"revision"`
	// Queued are changes that the store does not have yet.
	Queued int `json:"queued"`
	// LagRevisions is by how much the newest revision that the informer heard of is above the
	// store's, and LagSeconds since when it is above.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// SilentSeconds is how long ago the follower last said anything; -1 if it never did. An
	// unchanged view is spoken of every few seconds, so that more means a fault.
	SilentSeconds float64 `json:"silentSeconds"`
	// Handlers are told of the changes.
	Handlers []Handler `json:"handlers"`
}

// Handler says how far one handler is behind the store of its informer.
type Handler struct {
	// Name is the handler's name or Go type.
	Name string `json:"name"`
	// Synced says whether the handler has returned from its initial list.
	Synced bool `json:"synced"`
	// Pending are the calls that wait, beside the one that runs.
	Pending int `json:"pending"`
	// LagRevisions and LagSeconds count from the oldest change of which the handler has not
	// returned; 0 if there is none.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// Coalesced counts the updates that the handler got as one with a later one.
	Coalesced int `json:"coalesced"`
	// Panics counts the calls that ended by a panic.
	Panics int `json:"panics"`
}

// Path is where every service serves its watchers.
const Path = "/debug/garboard/watchers"

// Serve serves what each of sources gives, such as Watchers of an informer.Factory, as a JSON
// array, for tools that show who follows what and how far behind.
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
		_, _ = w.Write(append(body, '\n')) // The reader has gone; nobody is left to tell.
	})
}
