package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// TestArchive reads an image as a container runtime does: by its manifest, every digest checked.
func TestArchive(t *testing.T) {
	i := image{reference: "garboard/scheduler:v1", name: "scheduler", user: "65532:65532", version: "v1", binary: []byte("program")}
	var first, second bytes.Buffer
	if err := errors.Join(i.write(&first), i.write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program makes two different images")
	}
	files := unpack(t, &first)
	var list []manifest
	if err := json.Unmarshal(files["manifest.json"], &list); err != nil || len(list) != 1 || list[0].RepoTags[0] != i.reference {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	var settings config
	if err := json.Unmarshal(files[list[0].Config], &settings); err != nil {
		t.Fatal(err)
	}
	layer := files[list[0].Layers[0]]
	if want := "sha256:" + digest(layer); settings.RootFS.DiffIDs[0] != want {
		t.Errorf("the layer is called %s, want %s", settings.RootFS.DiffIDs[0], want)
	}
	if digest(files[list[0].Config])+".json" != list[0].Config {
		t.Error("the configuration is not called by its digest")
	}
	if settings.Config.User != i.user || settings.Config.Entrypoint[0] != "/scheduler" {
		t.Errorf("it runs %v as %s", settings.Config.Entrypoint, settings.Config.User)
	}
	if program := unpack(t, bytes.NewReader(layer))["scheduler"]; string(program) != "program" {
		t.Errorf("the program in it is %q", program)
	}
}

func unpack(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = data
	}
}
