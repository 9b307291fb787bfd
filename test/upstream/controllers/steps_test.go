package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// script is what a user does, and what breaks meanwhile. It has a namespace of its own, named as itself. The names of
// its objects in no namespace begin with "NAME.".
type script struct {
	name  string
	steps []step
}

// step is one act on one plane. Both planes become quiet before the next.
type step struct {
	what string
	do   func(ctx context.Context, p *plane, home string) error
}

// create creates the objects of YAML documents. HOME stands for the script's name.
func create(text string) step {
	return step{"create", func(ctx context.Context, p *plane, home string) error {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "HOME", home))))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(bytes.TrimSpace(document)) == 0 {
				continue
			}
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &obj.Object); err != nil {
				return fmt.Errorf("reading a document: %w", err)
			}
			resource, err := p.resource(obj.GetKind(), obj.GroupVersionKind().GroupVersion(), home)
			if err != nil {
				return err
			}
			if _, err := resource.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
		}
	}}
}

// patch merges JSON into an object. Of what it names "RESOURCE/SUBRESOURCE", the subresource.
func patch(resource, name, body string) step {
	return step{"patch " + resource + " " + name, func(ctx context.Context, p *plane, home string) error {
		resource, sub, _ := strings.Cut(resource, "/")
		client, err := p.named(resource, home)
		if err != nil {
			return err
		}
		var subs []string
		if sub != "" {
			subs = []string{sub}
		}
		_, err = client.Patch(ctx, strings.ReplaceAll(name, "HOME", home), types.MergePatchType,
			[]byte(strings.ReplaceAll(body, "HOME", home)), metav1.PatchOptions{}, subs...)
		return err
	}}
}

// remove deletes an object.
func remove(resource, name string, policy metav1.DeletionPropagation) step {
	return step{"delete " + resource + " " + name, func(ctx context.Context, p *plane, home string) error {
		client, err := p.named(resource, home)
		if err != nil {
			return err
		}
		return client.Delete(ctx, strings.ReplaceAll(name, "HOME", home), metav1.DeleteOptions{PropagationPolicy: &policy})
	}}
}

// eachPod does something with the first pods, by node, that have labels.
func eachPod(what string, most int, labels string, do func(ctx context.Context, pods dynamic.ResourceInterface, name string) error) step {
	return step{what, func(ctx context.Context, p *plane, home string) error {
		pods, err := p.named("pods", home)
		if err != nil {
			return err
		}
		found, err := pods.List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			return err
		}
		if len(found.Items) < most {
			return fmt.Errorf("there are %d pods with %s, not %d", len(found.Items), labels, most)
		}
		// Names are random; nodes are not, where they matter.
		slices.SortStableFunc(found.Items, func(a, b unstructured.Unstructured) int {
			return strings.Compare(nodeNamed(a), nodeNamed(b))
		})
		for _, pod := range found.Items[:most] {
			if err := do(ctx, pods, pod.GetName()); err != nil {
				return err
			}
		}
		return nil
	}}
}

func nodeNamed(pod unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return name
}

// removePods has a foreign writer delete pods.
func removePods(most int, labels string) step {
	return eachPod("delete pods", most, labels, func(ctx context.Context, pods dynamic.ResourceInterface, name string) error {
		return pods.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// patchPods has a foreign writer change pods.
func patchPods(most int, labels, body string) step {
	return eachPod("patch pods", most, labels, func(ctx context.Context, pods dynamic.ResourceInterface, name string) error {
		_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	})
}

// during does something while the controllers are dead, and starts them again. They get no time to react to what
// came just before.
func during(first, meanwhile step) step {
	return step{first.what + ", kill the controllers, " + meanwhile.what, func(ctx context.Context, p *plane, home string) error {
		if err := first.do(ctx, p, home); err != nil {
			return err
		}
		p.controllers.end(syscall.SIGKILL)
		if err := meanwhile.do(ctx, p, home); err != nil {
			return err
		}
		return p.controllers.start(ctx)
	}}
}

// outage does something and kills the apiserver, for a while. The controllers are stopped until then: a write
// of theirs whose answer is lost has no Event, here and there, and which write that is would differ. The change is on
// its way to them before the apiserver ends, so that they all know what they cannot do yet.
func outage(first step) step {
	return step{first.what + ", kill the apiserver", func(ctx context.Context, p *plane, home string) error {
		p.controllers.signal(syscall.SIGSTOP)
		defer p.controllers.signal(syscall.SIGCONT)
		if err := first.do(ctx, p, home); err != nil {
			return err
		}
		if err := later(time.Second).do(ctx, p, home); err != nil {
			return err
		}
		p.apiserver.end(syscall.SIGKILL)
		p.controllers.signal(syscall.SIGCONT)
		if err := later(calm).do(ctx, p, home); err != nil {
			return err
		}
		return p.apiserver.start(ctx)
	}}
}

// later waits, for what happens at a time.
func later(wait time.Duration) step {
	return step{"wait", func(ctx context.Context, _ *plane, _ string) error {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return ctx.Err()
	}}
}

// resource returns the client of a kind, in the script's namespace if it has one.
func (p *plane) resource(kind string, version schema.GroupVersion, home string) (dynamic.ResourceInterface, error) {
	mapping, err := p.mapper.RESTMapping(version.WithKind(kind).GroupKind(), version.Version)
	if err != nil {
		return nil, err
	}
	return p.at(mapping.Resource, home), nil
}

// named returns the client of a resource by its plural.
func (p *plane) named(resource, home string) (dynamic.ResourceInterface, error) {
	found, err := p.mapper.ResourceFor(schema.GroupVersionResource{Resource: resource})
	if err != nil {
		return nil, err
	}
	return p.at(found, home), nil
}

func (p *plane) at(resource schema.GroupVersionResource, home string) dynamic.ResourceInterface {
	if slices.Contains(p.cluster, resource) {
		return p.client.Resource(resource)
	}
	return p.client.Resource(resource).Namespace(home)
}

// open creates the script's namespace, and waits until its ServiceAccount is there, which pods need.
func open() step {
	return step{"create the namespace", func(ctx context.Context, p *plane, home string) error {
		if err := create("apiVersion: v1\nkind: Namespace\nmetadata: {name: HOME}\n").do(ctx, p, home); err != nil {
			return err
		}
		return await(ctx, "the ServiceAccount of "+home, func(ctx context.Context) error {
			accounts, err := p.named("serviceaccounts", home)
			if err == nil {
				_, err = accounts.Get(ctx, "default", metav1.GetOptions{})
			}
			return err
		})
	}}
}

// gone deletes the script's namespace and waits until it is gone.
func gone() step {
	return step{"delete the namespace", func(ctx context.Context, p *plane, home string) error {
		spaces, err := p.named("namespaces", home)
		if err != nil {
			return err
		}
		if err := spaces.Delete(ctx, home, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return await(ctx, "the end of "+home, func(ctx context.Context) error {
			_, err := spaces.Get(ctx, home, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return errors.New("it exists")
		})
	}}
}

// await polls until check returns nil.
func await(ctx context.Context, what string, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		began := time.Now()
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(max(pause, 10*time.Since(began))): // What is measured shares the processors.
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}
