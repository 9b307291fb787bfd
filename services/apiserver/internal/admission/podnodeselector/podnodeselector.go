// Package podnodeselector is the plugin PodNodeSelector.
package podnodeselector

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
)

// annotation is a namespace's own selector for its pods.
const annotation = "scheduler.alpha.kubernetes.io/node-selector"

// byDefault is the key of the selector for namespaces without the annotation.
const byDefault = "clusterDefaultNodeSelector"

// plugin has the selectors of its configuration, by namespace.
type plugin struct {
	objects   admission.Objects
	selectors map[string]labels.Set
}

// Plugin returns the plugin. It adds the node selector of its namespace to each new pod, and refuses a
// pod with other labels than document allows in the namespace. The document has a node selector
// for each namespace, and the default, below podNodeSelectorPluginConfig; it may be empty.
func Plugin(objects admission.Objects, document []byte) (admission.Plugin, error) {
	var found struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if len(document) > 0 {
		if err := configuration.Decode(document, &found); err != nil {
			return admission.Plugin{}, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	p := plugin{objects: objects, selectors: map[string]labels.Set{}}
	for namespace, text := range found.Selectors {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return admission.Plugin{}, fmt.Errorf("the configuration is invalid: podNodeSelectorPluginConfig[%s]: %w", namespace, err)
		}
		p.selectors[namespace] = selector
	}
	return admission.Plugin{Mutate: p.mutate, Validate: p.validate}, nil
}

// mutate adds the namespace's selector to a new pod.
func (p plugin) mutate(ctx context.Context, req *admission.Request) error {
	pod, ok := newPod(req)
	if !ok {
		return nil
	}
	selector, err := p.check(ctx, req.Namespace, pod)
	if err != nil {
		return err
	}
	if len(selector) > 0 && pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(pod.Spec.NodeSelector, selector)
	return p.allowed(req.Namespace, pod)
}

// validate refuses a new pod whose selector a later plugin has changed to one that is not allowed.
func (p plugin) validate(ctx context.Context, req *admission.Request) error {
	pod, ok := newPod(req)
	if !ok {
		return nil
	}
	if _, err := p.check(ctx, req.Namespace, pod); err != nil {
		return err
	}
	return p.allowed(req.Namespace, pod)
}

func newPod(req *admission.Request) (*corev1.Pod, bool) {
	pod, ok := req.Object.(*corev1.Pod)
	return pod, ok && req.Verb == admission.Create && req.Subresource == ""
}

// check returns the namespace's selector, and an error if the pod's contradicts it.
func (p plugin) check(ctx context.Context, name string, pod *corev1.Pod) (labels.Set, error) {
	namespace, err := admission.Get[*corev1.Namespace](ctx, p.objects, "", name)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("namespace %s does not exist", name))
	}
	selector := p.selectors[byDefault]
	if text, ok := namespace.Annotations[annotation]; ok {
		if selector, err = labels.ConvertSelectorToLabelsMap(text); err != nil {
			return nil, admission.Unclassified(err)
		}
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return nil, forbidden(pod, "pod node label selector conflicts with its namespace node label selector")
	}
	return selector, nil
}

// allowed returns an error if the pod's selector has a label that the configuration of its namespace
// lacks. A namespace without a configuration allows all.
func (p plugin) allowed(namespace string, pod *corev1.Pod) error {
	list := p.selectors[namespace]
	if len(list) == 0 {
		return nil
	}
	for key, value := range pod.Spec.NodeSelector {
		if found, ok := list[key]; !ok || found != value {
			return forbidden(pod, "pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

func forbidden(pod *corev1.Pod, text string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New(text))
}
