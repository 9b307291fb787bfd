package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/sample"
)

// changePause is the time in which an apiserver learns of a changed definition.
const changePause = 3 * time.Second

// documents are what clients read to learn of kinds.
var documents = []struct{ name, path, accept string }{
	{"aggregated discovery", "/apis", togetherType},
	{"resources of a group", "/apis/" + sample.WidgetGroup(0) + "/v1", json},
	{"index of OpenAPI v3", "/openapi/v3", json},
	{"OpenAPI v3 of a group", "/openapi/v3/apis/" + sample.WidgetGroup(0) + "/v1", json},
	{"OpenAPI v2", "/openapi/v2", json},
}

// discoveryOfAll measures what clients read of an apiserver that serves n definitions.
func (b *bench) discoveryOfAll(ctx context.Context, n int) error {
	b.compareTable(fmt.Sprintf("Discovery of %d definitions", n), "document", "ms of CPU")
	clients := map[*side]*rest.RESTClient{}
	err := b.eachSide(func(s *side) (err error) {
		if clients[s], err = s.Client(json); err != nil {
			return err
		}
		return readDocuments(ctx, clients[s])
	})
	if err != nil {
		return err
	}
	changes := 0
	for _, row := range []struct {
		name string
		read func(*rest.RESTClient) error
	}{
		{"a definition changes, and the index of OpenAPI v3 is read", func(c *rest.RESTClient) error { return read(ctx, c, documents[2].path, json) }},
		{"a definition changes, and all are read", func(c *rest.RESTClient) error { return readDocuments(ctx, c) }},
	} {
		costs, err := b.profiled(ctx, row.name, func(s *side) error {
			changes++
			if err := changeDefinition(ctx, clients[s], changes); err != nil {
				return err
			}
			return row.read(clients[s])
		})
		if err != nil {
			return err
		}
		b.compareRow(row.name, costs, 1, time.Millisecond)
	}
	for _, document := range documents {
		costs, err := b.turns(func(s *side) error {
			for range listings {
				if err := read(ctx, clients[s], document.path, document.accept); err != nil {
					return fmt.Errorf("%s: %w", document.name, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.compareRow(document.name+", again", costs, listings, time.Millisecond)
	}
	return nil
}

// changeDefinition changes the schema of the first definition, and waits until it has its consequences.
func changeDefinition(ctx context.Context, client *rest.RESTClient, n int) error {
	patch := fmt.Appendf(nil, `[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "change %d"}]`, n)
	err := client.Patch(types.JSONPatchType).AbsPath(definitionsPath, "widget0s."+sample.WidgetGroup(0)).Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("changing a definition: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(changePause):
		return nil
	}
}

func readDocuments(ctx context.Context, client *rest.RESTClient) error {
	for _, document := range documents {
		if err := read(ctx, client, document.path, document.accept); err != nil {
			return fmt.Errorf("%s: %w", document.name, err)
		}
	}
	return nil
}

// read reads a document without decoding it.
func read(ctx context.Context, client *rest.RESTClient, path, accept string) error {
	stream, err := client.Get().AbsPath(path).SetHeader("Accept", accept).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	_, err = io.Copy(io.Discard, stream)
	return err
}
