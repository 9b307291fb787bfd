package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/sample"
)

const jsonType = "application/json"

// verb is a request; n numbers it.
type verb func(ctx context.Context, client *rest.RESTClient, n int) error

// hostile is a kind of hostile request. Its failure is expected.
type hostile struct {
	name string
	do   verb
}

// attacks returns the kinds of hostile requests.
func attacks(namespace string) []hostile {
	rules, deep := sample.Rules(100), slices.Concat([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "data": `), bytes.Repeat([]byte("["), 2<<20))
	of := func(group, version, resource string) string {
		return "/apis/" + group + "/" + version + "/namespaces/" + namespace + "/" + resource
	}
	return []hostile{
		{"definitions with 100 costly rules", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return post(ctx, client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", rules)
		}},
		{"objects with a rule at its limit", func(ctx context.Context, client *rest.RESTClient, n int) error {
			trap := client.Post().AbsPath(of(sample.TrapGroup, "v1", "traps")).Param("dryRun", "All")
			return request(trap, sample.Trap(namespace, "trap-"+strconv.Itoa(n))).Do(ctx).Error()
		}},
		{"webhook that is slow or answers garbage", func(ctx context.Context, client *rest.RESTClient, n int) error {
			return post(ctx, client, of(sample.GadgetGroup, "v1", "gadgets"), sample.Gadget(namespace, "hostile-"+strconv.Itoa(n), n, "", "new"))
		}},
		{"conversion webhook that is slow or answers garbage", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return client.Get().AbsPath(of(sample.TrapGroup, "v2", "twins")).Do(ctx).Error()
		}},
		{"bodies nested 2 million deep", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return post(ctx, client, "/api/v1/namespaces/"+namespace+"/configmaps", deep)
		}},
	}
}

// writeOrdinary writes ConfigMaps that no timed request writes.
func writeOrdinary(namespace string) verb {
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	return func(ctx context.Context, client *rest.RESTClient, n int) error {
		name := fmt.Sprintf("ordinary-%d", n%800)
		body := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}, "data": {"key": "%d"}}`, name, time.Now().UnixNano())
		err := request(client.Put().AbsPath(path, name), body).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return post(ctx, client, path, body)
		}
		return err
	}
}

func request(r *rest.Request, body []byte) *rest.Request {
	return r.SetHeader("Content-Type", jsonType).Body(body)
}

func post(ctx context.Context, client *rest.RESTClient, path string, body []byte) error {
	return request(client.Post().AbsPath(path), body).Do(ctx).Error()
}
