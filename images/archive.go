package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime"
	"time"
)

// epoch dates everything in an image, so that the same program makes the same image.
var epoch = time.Unix(0, 0).UTC()

// image is one program in an image of its own.
type image struct {
	reference, name, user, version string
	binary                         []byte
}

// The parts of Docker's image archive that are used here (image specification v1.2).
type (
	manifest struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	config struct {
		Architecture string       `json:"architecture"`
		OS           string       `json:"os"`
		Created      time.Time    `json:"created"`
		Config       runConfig    `json:"config"`
		RootFS       rootFS       `json:"rootfs"`
		History      []historyRow `json:"history"`
	}
	runConfig struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	historyRow struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}
)

// write writes the image as an archive.
func (i image) write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	sum := digest(layer)
	settings, err := json.Marshal(config{
		Architecture: runtime.GOARCH, OS: "linux", Created: epoch,
		Config: runConfig{User: i.user, Entrypoint: []string{"/" + i.name}, Labels: map[string]string{
			"org.opencontainers.image.title": "garboard " + i.name, "org.opencontainers.image.version": i.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		}},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{"sha256:" + sum}},
		History: []historyRow{{Created: epoch, CreatedBy: "garboard images"}},
	})
	if err != nil {
		return err
	}
	configName, layerName := digest(settings)+".json", sum+"/layer.tar"
	list, err := json.Marshal([]manifest{{Config: configName, RepoTags: []string{i.reference}, Layers: []string{layerName}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, file := range []struct {
		name string
		data []byte
	}{{configName, settings}, {layerName, layer}, {"manifest.json", list}} {
		if err := add(archive, file.name, 0o644, file.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// layer is the image's only layer: the program, and the folders that it writes to.
func (i image) layer() ([]byte, error) {
	var buf bytes.Buffer
	layer := tar.NewWriter(&buf)
	for _, folder := range []string{"tmp/", "var/", "var/lib/", "var/lib/garboard/"} {
		mode := int64(0o755)
		if folder == "tmp/" || folder == "var/lib/garboard/" {
			mode = 0o1777
		}
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: mode, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	if err := add(layer, i.name, 0o755, i.binary); err != nil {
		return nil, err
	}
	if err := layer.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func add(archive *tar.Writer, name string, mode int64, data []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: epoch}); err != nil {
		return err
	}
	_, err := archive.Write(data)
	return err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
