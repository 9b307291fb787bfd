package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
)

// Media types of the registry's content.
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Image is an image to build from scratch.
type Image struct {
	// Repository is the name in the registry ("library/nginx").
	Repository string
	Tags       []string
	// Binary is the program on this machine that becomes Path in the image.
	Binary, Path string
	// Links are additional names of the program.
	Links []string
	// Programs are additional programs and their libraries.
	Programs []Program
	// Files are additional world-readable files, by path.
	Files map[string]string
	Env   []string
	// Entrypoint and Command are set in the image's configuration.
	Entrypoint, Command []string
	// Username and Password are required for a pull; if they are empty, anyone may pull.
	Username, Password string
}

// Program is a file of this machine that becomes Path in an image. Links are further names of it.
type Program struct {
	File, Path string
	Links      []string
	// SetUID makes it run as root, whoever starts it.
	SetUID bool
}

// registry is a read-only OCI registry in memory. Push adds to it.
type registry struct {
	mu           sync.Mutex
	repositories map[string]*repository
	pulls        map[string]int
}

type repository struct {
	username, password string
	manifests          map[string][]byte // by tag and by digest
	blobs              map[string][]byte // by digest
}

func newRegistry() *registry {
	return &registry{repositories: map[string]*repository{}, pulls: map[string]int{}}
}

// push builds an image and tags it.
func (r *registry) push(image Image) error {
	layer, err := image.layer()
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Repository, err)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      "2020-01-01T00:00:00Z",
		"config": map[string]any{
			"Env":        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, image.Env...),
			"Entrypoint": image.Entrypoint,
			"Cmd":        image.Command,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Repository, err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     typeManifest,
		"config":        descriptor(typeConfig, config),
		"layers":        []any{descriptor(typeLayer, layer)},
	})
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Repository, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.repositories[image.Repository]
	if repo == nil {
		repo = &repository{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
		r.repositories[image.Repository] = repo
	}
	repo.username, repo.password = image.Username, image.Password
	repo.blobs[digest(layer)], repo.blobs[digest(config)] = layer, config
	repo.manifests[digest(manifest)] = manifest
	for _, tag := range image.Tags {
		repo.manifests[tag] = manifest
	}
	return nil
}

func descriptor(mediaType string, content []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "size": len(content), "digest": digest(content)}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer returns the image's only layer: the programs and the few files that programs expect.
func (i Image) layer() ([]byte, error) {
	var out bytes.Buffer
	l := &layer{to: tar.NewWriter(&out), made: map[string]bool{"": true}}
	if err := l.folder("tmp", 0o1777); err != nil {
		return nil, err
	}
	for _, program := range append([]Program{{File: i.Binary, Path: i.Path, Links: i.Links}}, i.Programs...) {
		if err := l.program(program); err != nil {
			return nil, err
		}
	}
	files := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101:nginx:/nonexistent:/bin/false\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
		"/etc/group":  "root:x:0:\nnginx:x:101:\nnobody:x:65534:\n",
	}
	maps.Copy(files, i.Files)
	for _, path := range sortedKeys(files) {
		if err := l.file(path, 0o644, []byte(files[path])); err != nil {
			return nil, err
		}
	}
	if err := l.to.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// pulled returns how often a manifest of the repository was fetched; HEAD requests do not count.
func (r *registry) pulled(repository string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[repository]
}

// ServeHTTP implements the part of the OCI distribution API that pulls need.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read only")
		return
	}
	path, ok := strings.CutPrefix(request.URL.Path, "/v2/")
	if !ok {
		refuse(w, http.StatusNotFound, "UNSUPPORTED", "unknown path")
		return
	}
	if path == "" {
		return
	}
	for _, kind := range []string{"/manifests/", "/blobs/"} {
		if at := strings.LastIndex(path, kind); at > 0 {
			r.serve(w, request, path[:at], kind, path[at+len(kind):])
			return
		}
	}
	refuse(w, http.StatusNotFound, "UNSUPPORTED", "unknown path")
}

func (r *registry) serve(w http.ResponseWriter, request *http.Request, name, kind, reference string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.repositories[name]
	if repo == nil {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", "repository name not known to registry")
		return
	}
	if user, password, _ := request.BasicAuth(); user != repo.username || password != repo.password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	content, found := repo.manifests[reference]
	contentType, unknown := typeManifest, "MANIFEST_UNKNOWN"
	if kind == "/blobs/" {
		content, found = repo.blobs[reference]
		contentType, unknown = "application/octet-stream", "BLOB_UNKNOWN"
	}
	if !found {
		refuse(w, http.StatusNotFound, unknown, "unknown to registry")
		return
	}
	if kind == "/manifests/" && request.Method == http.MethodGet {
		r.pulls[name]++
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Docker-Content-Digest", digest(content))
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if request.Method == http.MethodGet {
		_, _ = w.Write(content)
	}
}

func refuse(w http.ResponseWriter, code int, word, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": word, "message": message}}})
}
