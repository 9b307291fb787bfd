// Package zpages serves what a component tells of itself: /statusz (KEP 4827) and /flagz (KEP 4828).
package zpages

import (
	"net/http"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/component-base/compatibility"
)

// component is the name that the pages have for the program.
const component = "apiserver"

// Mux is where the pages are served.
type Mux interface {
	Handle(path string, handler http.Handler)
}

// Serve adds the pages to mux. Release is the Kubernetes release whose API is served, such as v1.37.2. Paths are those
// that /statusz lists. Flags returns the values that /flagz shows, by the flags' names; if it is nil, there is no /flagz.
func Serve(mux Mux, release string, paths []string, flags func() map[string]string) {
	version := compatibility.NewEffectiveVersionFromString(release, "", "")
	statusz.Install(mux, component, statusz.NewRegistry(version, statusz.WithListedPaths(paths)))
	if flags != nil {
		flagz.Install(mux, component, reader(flags))
	}
}

// reader lets the library read the flags.
type reader func() map[string]string

// GetFlagz returns the values of the flags by their names.
func (r reader) GetFlagz() map[string]string { return r() }
