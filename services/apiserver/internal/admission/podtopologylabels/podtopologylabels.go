// Package podtopologylabels is the plugin PodTopologyLabels.
package podtopologylabels

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// copied are the labels of nodes that their pods get.
func copied() []string { return []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} }

// Plugin returns the plugin. It copies the zone and region of the node to a Binding, whose labels the
// pod gets, or to a pod that is created with a node.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: func(ctx context.Context, req *admission.Request) error {
		if req.Verb != admission.Create {
			return nil
		}
		switch o := req.Object.(type) {
		case *corev1.Pod:
			if req.Subresource == "" && o.Spec.NodeName != "" {
				return label(ctx, objects, o, o.Spec.NodeName)
			}
		case *corev1.Binding:
			if req.Subresource == "binding" && o.Target.Kind == "Node" {
				return label(ctx, objects, o, o.Target.Name)
			}
		}
		return nil
	}}
}

// labelled is an object with labels.
type labelled interface {
	GetLabels() map[string]string
	SetLabels(labels map[string]string)
}

// label copies the labels of a node, if it exists, over those of obj.
func label(ctx context.Context, objects admission.Objects, obj labelled, name string) error {
	node, err := admission.Get[*corev1.Node](ctx, objects, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return admission.Unclassified(err)
	}
	for _, key := range copied() {
		value, ok := node.Labels[key]
		if !ok {
			continue
		}
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		obj.SetLabels(labels)
	}
	return nil
}
