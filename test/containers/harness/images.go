package harness

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// PauseImage is the image of sandboxes.
const PauseImage = "registry.k8s.io/pause:3.10"

// Credentials of the image private/nginx:1.0.
const (
	PrivateImage    = "docker.io/private/nginx:1.0"
	PrivateUser     = "sailor"
	PrivatePassword = "ahoy"
)

const welcome = `<!DOCTYPE html>
<html>
<head><title>Welcome to nginx!</title></head>
<body>
<h1>Welcome to nginx!</h1>
<p>This is the stand-in of Garboard's tests.</p>
</body>
</html>
`

// build compiles the programs of the images and pushes the images.
func (c *Containers) build(ctx context.Context) error {
	for _, name := range []string{"pause", "nginx", "busybox"} {
		if err := c.compile(ctx, name); err != nil {
			return err
		}
	}
	images := []Image{{
		Repository: "pause", Tags: []string{"3.10"},
		Binary: c.StandIn("pause"), Path: "/pause", Entrypoint: []string{"/pause"},
	}, {
		Repository: "library/busybox", Tags: []string{"latest", "1.28", "1.36"},
		Binary: c.StandIn("busybox"), Path: "/bin/busybox", Links: []string{
			"/bin/sh", "/bin/echo", "/bin/cat", "/bin/sleep", "/bin/true", "/bin/false", "/bin/env", "/bin/pwd", "/bin/id",
			"/bin/hostname", "/bin/ls", "/bin/test", "/bin/touch", "/bin/rm", "/bin/wget", "/bin/fill", "/bin/tar",
		},
		Command: []string{"sh"},
	}, {
		Repository: "private/nginx", Tags: []string{"1.0"}, Username: PrivateUser, Password: PrivatePassword,
		Binary: c.StandIn("nginx"), Path: "/usr/sbin/nginx", Entrypoint: []string{"/usr/sbin/nginx"},
		Env: []string{"NGINX_VERSION=private"}, Files: map[string]string{"/usr/share/nginx/html/index.html": welcome},
	}}
	for _, version := range []string{"1.14.2", "1.16.1", "1.25.5"} {
		tags := []string{version}
		if version == "1.25.5" {
			tags = append(tags, "latest")
		}
		images = append(images, Image{
			Repository: "library/nginx", Tags: tags,
			Binary: c.StandIn("nginx"), Path: "/usr/sbin/nginx",
			Entrypoint: []string{"/usr/sbin/nginx"}, Command: []string{"-g", "daemon off;"},
			Env:   []string{"NGINX_VERSION=" + version},
			Files: map[string]string{"/usr/share/nginx/html/index.html": welcome},
		})
	}
	for _, image := range images {
		if err := c.Push(image); err != nil {
			return err
		}
	}
	return nil
}

// Push adds an image to the registry; existing tags are moved.
func (c *Containers) Push(image Image) error { return c.registry.push(image) }

// Build compiles the program of test/containers/images/<name> and pushes an image with it.
func (c *Containers) Build(t testing.TB, name string, image Image) {
	t.Helper()
	if err := c.compile(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	image.Binary = c.StandIn(name)
	if err := c.Push(image); err != nil {
		t.Fatal(err)
	}
}

// Pulled returns how often images of the repository ("library/nginx") were pulled.
func (c *Containers) Pulled(repository string) int { return c.registry.pulled(repository) }

// StandIn returns the path of the program of an image: nginx, busybox or pause.
func (c *Containers) StandIn(name string) string { return filepath.Join(c.dir, "bin", name) }

// compile builds the static program of test/containers/images/<name>.
func (c *Containers) compile(ctx context.Context, name string) error {
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return fmt.Errorf("finding the sources of the image %s", name)
	}
	command := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", c.StandIn(name), ".")
	command.Dir = filepath.Join(filepath.Dir(here), "..", "images", name)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the program of the image %s: %w: %s", name, err, output)
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
