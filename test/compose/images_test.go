//go:build compose

package compose_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImages checks that the services run without privileges, that images have labels, and that
// they are small.
func TestImages(t *testing.T) {
	require(t)
	version := cmp.Or(os.Getenv("GARBOARD_VERSION"), "dev")
	for name, c := range map[string]struct {
		user      string
		megabytes int
	}{
		// CEL, for custom resources and admission policies, and its grammar are some 10 MB of it.
		"apiserver":   {"65532:65532", 64},
		"controllers": {"65532:65532", 56},
		"scheduler":   {"65532:65532", 48},
		// It contains kubectl and all services, a node agent's network parts among them.
		"cli":       {"65532:65532", 128},
		"nodeagent": {"", 400},
	} {
		printed, err := exec.CommandContext(t.Context(), "docker", "image", "inspect", "garboard/"+name+":"+version).Output()
		if err != nil {
			t.Errorf("%s: %v (make images VERSION=%s)", name, err, version)
			continue
		}
		var images []struct {
			Size   int
			Config struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			}
		}
		if err := json.Unmarshal(printed, &images); err != nil || len(images) != 1 {
			t.Errorf("%s: %d images, %v", name, len(images), err)
			continue
		}
		image := images[0]
		t.Logf("%s: %d MB", name, image.Size/1e6)
		if image.Size > c.megabytes*1e6 {
			t.Errorf("%s has %d bytes, want at most %d MB", name, image.Size, c.megabytes)
		}
		if image.Config.User != c.user {
			t.Errorf("%s runs as %q, want %q", name, image.Config.User, c.user)
		}
		for _, label := range []string{"title", "description", "version", "revision", "licenses", "source", "vendor"} {
			if image.Config.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("%s has no label %s", name, label)
			}
		}
		if got := image.Config.Labels["org.opencontainers.image.version"]; got != version {
			t.Errorf("%s is labelled with version %q, want %q", name, got, version)
		}
		said, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--entrypoint", program(name, image.Config.Entrypoint), "garboard/"+name+":"+version, "--version").Output()
		if err != nil || !strings.Contains(string(said), version) {
			t.Errorf("%s reports the version %q, %v", name, said, err)
		}
	}
}

// program returns the program of an image, where the entrypoint is another one.
func program(name string, entrypoint []string) string {
	if name == "nodeagent" {
		return name
	}
	return entrypoint[0]
}
