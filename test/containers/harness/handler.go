package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// Registry builds the images, for programs that are not tests, and returns the registry that serves
// them. The images' programs are built in dir.
func Registry(ctx context.Context, dir string) (http.Handler, error) {
	c := &Containers{dir: dir, registry: newRegistry()}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the images: %w", err)
	}
	if err := c.build(ctx); err != nil {
		return nil, fmt.Errorf("building the images: %w", err)
	}
	return c.registry, nil
}
