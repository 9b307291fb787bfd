package chart_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestImagesTakeDigests checks that every image of the chart can be pinned by digest: with a digest
// for each component, no rendered image is named by a tag.
func TestImagesTakeDigests(t *testing.T) {
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			given := values(t, set)
			want := map[string]bool{}
			for i, component := range []string{"cli", "apiserver", "controllers", "scheduler", "nodes", "etcd", "nats"} {
				digest := fmt.Sprintf("sha256:%064x", i+1)
				// Sets of values share maps between components.
				block := map[string]any{"image": map[string]any{"digest": digest}}
				if own, ok := given[component].(map[string]any); ok {
					for key, value := range own {
						if key != "image" {
							block[key] = value
						}
					}
				}
				given[component], want[digest] = block, true
			}
			made, err := render(t, given)
			if err != nil {
				t.Fatal(err)
			}
			manifests := made.Manifest
			for _, hook := range made.Hooks {
				manifests += "\n" + hook.Manifest
			}
			images := regexp.MustCompile(`(?m)^[ -]*image: "?([^"\n]+)"?$`).FindAllStringSubmatch(manifests, -1)
			if len(images) < 4 {
				t.Fatalf("found %d images", len(images))
			}
			for _, image := range images {
				if _, digest, _ := strings.Cut(image[1], "@"); !want[digest] {
					t.Errorf("the image %s has no digest", image[1])
				}
			}
		})
	}
}
