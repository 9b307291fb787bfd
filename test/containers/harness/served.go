package harness

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// ServeImages serves the images to containers outside the harness, on an address of the machine
// (HOST:PORT, or port 0), until the test ends. It returns the address. It needs neither root nor
// containerd.
func ServeImages(t testing.TB, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c := &Containers{dir: t.TempDir(), registry: newRegistry()}
	if err := os.MkdirAll(filepath.Join(c.dir, "bin"), 0o755); err != nil {
		t.Fatalf("creating the folder of the images: %v", err)
	}
	if err := c.build(ctx); err != nil {
		t.Fatalf("building the images: %v", err)
	}
	served, err := c.serveRegistry(ctx, t, address)
	if err != nil {
		t.Fatalf("serving the images: %v", err)
	}
	return served
}
