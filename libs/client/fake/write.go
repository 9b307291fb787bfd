package fake

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func (c *Client) create(call client.Call) (runtime.Object, error) {
	kind := call.Kind
	obj, err := body(call)
	if err != nil {
		return nil, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + rand.String(5))
	}
	if obj.GetName() == "" {
		return nil, apierrors.NewInvalid(kind.GroupKind(), "", nil)
	}
	if obj.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if current := c.objects[kind.GroupResource()][keyOf(obj.GetNamespace(), obj.GetName())]; current != nil {
		return nil, apierrors.NewAlreadyExists(kind.GroupResource(), obj.GetName())
	}
	if err := c.namespaceEnds(kind, obj); err != nil {
		return nil, err
	}
	prepareForCreate(kind, obj)
	if opts, ok := call.Options.(*metav1.CreateOptions); ok && len(opts.DryRun) > 0 {
		return obj, nil
	}
	c.commit(kind, obj)
	return obj, nil
}

// namespaceEnds refuses new content in a namespace that is being deleted. A missing namespace is
// not an error here, so that tests need not create one.
func (c *Client) namespaceEnds(kind *scheme.Kind, obj scheme.Object) error {
	if !kind.Namespaced {
		return nil
	}
	namespaces := scheme.For[*corev1.Namespace](c.table)
	namespace := c.objects[namespaces.GroupResource()][obj.GetNamespace()]
	if namespace == nil || namespace.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(kind.GroupResource(), obj.GetName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", obj.GetNamespace()))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", obj.GetNamespace()),
		Field:   "metadata.namespace",
	})
	return err
}

func (c *Client) update(call client.Call) (runtime.Object, error) {
	current, err := c.find(call.Kind, call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	if call.Subresource == "scale" {
		return c.updateScale(call, current)
	}
	next, err := body(call)
	if err != nil {
		return nil, err
	}
	if next.GetName() != call.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", next.GetName(), call.Name))
	}
	opts, _ := call.Options.(*metav1.UpdateOptions)
	return c.replace(call.Kind, call.Subresource, current, next, opts != nil && len(opts.DryRun) > 0)
}

// replace writes next in place of current. If current was only waiting for that change to be
// deleted, replace deletes it.
func (c *Client) replace(kind *scheme.Kind, subresource string, current, next scheme.Object, dryRun bool) (runtime.Object, error) {
	if uid := next.GetUID(); uid != "" && uid != current.GetUID() {
		return nil, conflict(kind, current, uidMessage(uid, current.GetUID()))
	}
	if rv := next.GetResourceVersion(); rv != "" && rv != current.GetResourceVersion() {
		return nil, conflict(kind, current,
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	if err := prepareForUpdate(kind, subresource, current, next); err != nil {
		return nil, err
	}
	next.SetResourceVersion(current.GetResourceVersion())
	next.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	if dryRun {
		return next, nil
	}
	if done(next) {
		return c.remove(kind, next), nil
	}
	if equality.Semantic.DeepEqual(current, next) {
		return current, nil
	}
	c.commit(kind, next)
	return next, nil
}

func (c *Client) patch(call client.Call) (runtime.Object, error) {
	current, err := c.find(call.Kind, call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	var from runtime.Object = current
	if call.Subresource == "scale" {
		if from, err = scaleOf(current); err != nil {
			return nil, err
		}
	}
	before, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s to patch it: %w", call.Kind.Kind, call.Name, err)
	}
	var after []byte
	switch call.PatchType {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, call.Patch)
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, call.Patch, from)
	case types.JSONPatchType:
		var decoded jsonpatch.Patch
		if decoded, err = jsonpatch.DecodePatch(call.Patch); err == nil {
			after, err = decoded.Apply(before)
		}
	default:
		return nil, apierrors.NewGenericServerResponse(415, "patch", call.Kind.GroupResource(), call.Name,
			fmt.Sprintf("the fake API does not support patches of type %q", call.PatchType), 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("patching %s %s: %v", call.Kind.Kind, call.Name, err))
	}
	if call.Subresource == "scale" {
		scale, err := decodeScale(after)
		if err != nil {
			return nil, err
		}
		call.Body = scale
		return c.updateScale(call, current)
	}
	next := call.Kind.New()
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("patching %s %s: %v", call.Kind.Kind, call.Name, err))
	}
	opts, _ := call.Options.(*metav1.PatchOptions)
	return c.replace(call.Kind, call.Subresource, current, next, opts != nil && len(opts.DryRun) > 0)
}

func (c *Client) delete(call client.Call) (runtime.Object, error) {
	current, err := c.find(call.Kind, call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	var opts metav1.DeleteOptions
	if given, ok := call.Options.(*metav1.DeleteOptions); ok && given != nil {
		opts = *given
	}
	if err := c.deleteObject(call.Kind, current, opts); err != nil {
		return nil, err
	}
	return &metav1.Status{
		Status:  metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: call.Name, Group: call.Kind.Group, Kind: call.Kind.Resource, UID: current.GetUID()},
	}, nil
}

func (c *Client) deleteObject(kind *scheme.Kind, current scheme.Object, opts metav1.DeleteOptions) error {
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() {
			return conflict(kind, current, uidMessage(*p.UID, current.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return conflict(kind, current, fmt.Sprintf(
				"Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s",
				*p.ResourceVersion, current.GetResourceVersion()))
		}
	}
	next := copyOf(current)
	finalizers, err := finalizersFor(current, opts)
	if err != nil {
		return err
	}
	next.SetFinalizers(finalizers)
	grace := graceOf(current, opts)
	if old := current.GetDeletionGracePeriodSeconds(); current.GetDeletionTimestamp() != nil && old != nil {
		grace = min(grace, *old)
	}
	if current.GetDeletionTimestamp() == nil {
		if hasGeneration(next) {
			next.SetGeneration(next.GetGeneration() + 1)
		}
		ends := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
		ends = ends.Rfc3339Copy()
		next.SetDeletionTimestamp(&ends)
	}
	next.SetDeletionGracePeriodSeconds(&grace)
	if namespace, ok := next.(*corev1.Namespace); ok {
		namespace.Status.Phase = corev1.NamespaceTerminating
	}
	switch {
	case len(opts.DryRun) > 0:
	case done(next):
		c.remove(kind, current)
	case !equality.Semantic.DeepEqual(current, next):
		c.commit(kind, next)
	}
	return nil
}

func (c *Client) deleteCollection(call client.Call) (runtime.Object, error) {
	list, err := listOptions(call)
	if err != nil {
		return nil, err
	}
	keep, err := newSelection(call.Kind, call.Namespace, list)
	if err != nil {
		return nil, err
	}
	var opts metav1.DeleteOptions
	if given, ok := call.Body.(*metav1.DeleteOptions); ok && given != nil {
		opts = *given
	}
	objects := c.objects[call.Kind.GroupResource()]
	for _, key := range sortedKeys(objects) {
		if obj := objects[key]; keep.selects(obj) {
			if err := c.deleteObject(call.Kind, obj, opts); err != nil {
				return nil, err
			}
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// body returns a copy of the call's object in the call's namespace. The copy has been encoded as
// JSON, so it has lost what JSON does not carry: fractions of seconds.
func body(call client.Call) (scheme.Object, error) {
	sent, ok := call.Body.(scheme.Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s of a %s sends a %T", call.Verb, call.Kind.Kind, call.Body))
	}
	data, err := json.Marshal(sent)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("encoding a %s: %v", call.Kind.Kind, err))
	}
	obj := call.Kind.New()
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding a %s: %v", call.Kind.Kind, err))
	}
	obj.GetObjectKind().SetGroupVersionKind(call.Kind.GroupVersionKind)
	if !call.Kind.Namespaced {
		if call.Namespace != "" || obj.GetNamespace() != "" {
			return nil, apierrors.NewBadRequest("namespace may not be set on a " + call.Kind.Kind)
		}
		return obj, nil
	}
	switch {
	case call.Namespace == "":
		return nil, apierrors.NewBadRequest("an empty namespace may not be set during " + call.Verb)
	case obj.GetNamespace() == "":
		obj.SetNamespace(call.Namespace)
	case obj.GetNamespace() != call.Namespace:
		return nil, apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	if finalizers := obj.GetFinalizers(); slices.Contains(finalizers, "") {
		return nil, apierrors.NewBadRequest("a finalizer may not be empty")
	}
	return obj, nil
}

func conflict(kind *scheme.Kind, obj scheme.Object, message string) error {
	return apierrors.NewConflict(kind.GroupResource(), obj.GetName(), fmt.Errorf("%s", message))
}

func uidMessage(wanted, found types.UID) string {
	return fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", wanted, found)
}
