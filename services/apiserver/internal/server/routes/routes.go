package routes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// apiModule is the module whose version determines the Kubernetes release: v0.37.2 belongs to
// v1.37.2.
const apiModule = "k8s.io/api"

// fallbackVersion is the version of the API in a binary without module information.
const fallbackVersion = "v1.37.2"

// APIVersion returns the Kubernetes release whose API is served, for example v1.37.2.
func APIVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fallbackVersion
	}
	for _, module := range info.Deps {
		if rest, ok := strings.CutPrefix(module.Version, "v0."); ok && module.Path == apiModule {
			return "v1." + rest
		}
	}
	return fallbackVersion
}

// Version returns the content of /version.
func Version() version.Info {
	api := APIVersion()
	parts := strings.SplitN(strings.TrimPrefix(api, "v"), ".", 3)
	info := version.Info{
		Major: parts[0], GitVersion: api + "+garboard", GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if len(parts) > 1 {
		info.Minor = parts[1]
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.GitCommit = setting.Value
		case "vcs.time":
			info.BuildDate = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				info.GitTreeState = "dirty"
			}
		}
	}
	return info
}

// ServeVersion serves GET /version.
func ServeVersion(encoder *response.Encoder) http.Handler {
	return serveJSON(encoder, func(*http.Request) (any, error) { return Version(), nil })
}

// ServePaths serves GET / with the served paths.
func ServePaths(encoder *response.Encoder, paths []string) http.Handler {
	return serveJSON(encoder, func(*http.Request) (any, error) { return map[string]any{"paths": paths}, nil })
}

// ServeTrace serves GET /debug/garboard/trace: the recorded hops as a JSON list, oldest first. The
// query parameters resource, namespace, name, uid, step, service and revision, a lower bound, each
// narrow the list.
func ServeTrace(encoder *response.Encoder, recorder *trace.Recorder) http.Handler {
	return serveJSON(encoder, func(r *http.Request) (any, error) {
		query := r.URL.Query()
		least, err := strconv.ParseInt(query.Get("revision"), 10, 64)
		if err != nil && query.Get("revision") != "" {
			return nil, fmt.Errorf("revision %q is not a number", query.Get("revision"))
		}
		is := func(name, value string) bool { return !query.Has(name) || query.Get(name) == value }
		hops := recorder.Hops(func(hop trace.Hop) bool {
			return is("resource", hop.Resource) && is("namespace", hop.Namespace) && is("name", hop.Name) && is("uid", hop.UID) &&
				is("step", hop.Step) && is("service", hop.Service) && hop.Revision >= least
		})
		if hops == nil {
			hops = []trace.Hop{}
		}
		return hops, nil
	})
}

func serveJSON(encoder *response.Encoder, content func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := content(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			encoder.Error(w, r, fmt.Errorf("encoding the response: %w", err))
			return
		}
		encoder.Bytes(w, r, http.StatusOK, "application/json", data)
	})
}
