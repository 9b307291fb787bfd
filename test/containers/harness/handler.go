package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// Registry makes the images, for programs that are no tests, and gives the registry that serves
// them. dir takes the images' programs.
func Registry(ctx context.Context, dir string) (http.Handler, error) {
	c := &Containers{dir: dir, registry: newRegistry()}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the images: %w", err)
	}
	if err := c.build(ctx); err != nil {
		return nil, fmt.Errorf("making the images: %w", err)
	}
	return c.registry, nil
}
