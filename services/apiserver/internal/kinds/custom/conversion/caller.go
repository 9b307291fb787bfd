package conversion

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// caller converts objects by a webhook.
type caller struct {
	client     *webhook.Client
	definition string
	reviews    []string // the versions of ConversionReview that the webhook takes, in its order
	metrics    *metrics
	timeout    time.Duration
}

// convert returns copies of objects in a version. Those that have it already are not sent.
func (c *caller) convert(objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	made, sent := make([]*unstructured.Unstructured, len(objs)), []int{}
	for i, u := range objs {
		if u.GetAPIVersion() == to.String() {
			made[i] = u.DeepCopy()
		} else {
			sent = append(sent, i)
		}
	}
	began := time.Now()
	why, err := c.fill(made, objs, sent, to)
	c.metrics.called(why, err, time.Since(began))
	if len(sent) > 0 {
		c.metrics.converted(c.definition, objs[sent[0]].GroupVersionKind().Version, to.Version, err, time.Since(began))
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// fill puts what the webhook made of the objects that are sent in their places. why is of Kubernetes' types
// of failures.
func (c *caller) fill(made, objs []*unstructured.Unstructured, sent []int, to schema.GroupVersion) (why string, err error) {
	if len(sent) == 0 {
		return "", nil
	}
	gvk := objs[0].GroupVersionKind()
	if len(objs) > 1 {
		gvk.Kind += "List"
	}
	found, why, err := c.ask(objs, sent, to)
	switch {
	case err != nil:
		return why, fmt.Errorf("conversion webhook for %v failed: %w", gvk, err)
	case len(found) != len(sent):
		return partial, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", gvk, len(found), len(sent))
	}
	for i, at := range sent {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(found[i].Raw); err != nil {
			return invalid, fmt.Errorf("conversion webhook for %v returned invalid converted object at index %d: %w", gvk, i, err)
		}
		if err := accept(u, objs[at], to); err != nil {
			return invalid, fmt.Errorf("conversion webhook for %v returned invalid converted object at index %d: %w", gvk, i, err)
		}
		if err := restoreMetadata(u, objs[at]); err != nil {
			return invalid, fmt.Errorf("conversion webhook for %v returned invalid metadata in object at index %d: %w", gvk, i, err)
		}
		made[at] = u
	}
	return "", nil
}

// ask sends objects to the webhook, and returns its answer to them.
func (c *caller) ask(objs []*unstructured.Unstructured, sent []int, to schema.GroupVersion) (found []runtime.RawExtension, why string, err error) {
	uid, all := uuid.NewUUID(), make([]runtime.RawExtension, len(sent))
	for i, at := range sent {
		all[i].Object = objs[at]
	}
	// Conversion is part of reading from etcd, for whoever waits for it: no request's end may end it.
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for _, version := range c.reviews {
		switch version {
		case apiextensionsv1.SchemeGroupVersion.Version:
			answer := &apiextensionsv1.ConversionReview{}
			if err := c.client.Call(ctx, &apiextensionsv1.ConversionReview{
				Request: &apiextensionsv1.ConversionRequest{UID: uid, DesiredAPIVersion: to.String(), Objects: all},
			}, answer); err != nil {
				return nil, uncalled, err
			}
			found, err = objectsOf(answer, uid)
			return found, malformed, err
		case apiextensionsv1beta1.SchemeGroupVersion.Version:
			answer := &apiextensionsv1beta1.ConversionReview{}
			if err := c.client.Call(ctx, &apiextensionsv1beta1.ConversionReview{
				Request: &apiextensionsv1beta1.ConversionRequest{UID: uid, DesiredAPIVersion: to.String(), Objects: all},
			}, answer); err != nil {
				return nil, uncalled, err
			}
			if answer.Response == nil {
				return nil, malformed, errAbsent
			}
			// Neither kind nor uid were ever checked in this version.
			return answer.Response.ConvertedObjects, malformed, succeeded(answer.Response.Result)
		}
	}
	return nil, uncalled, errors.New("no supported conversion review versions")
}

var errAbsent = errors.New("no response provided")

// objectsOf returns the objects of an answer in version v1, or an error if it is none to the question with a uid.
func objectsOf(answer *apiextensionsv1.ConversionReview, uid types.UID) ([]runtime.RawExtension, error) {
	if want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"); answer.GroupVersionKind() != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, answer.GroupVersionKind())
	}
	if answer.Response == nil {
		return nil, errAbsent
	}
	if answer.Response.UID != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, answer.Response.UID)
	}
	return answer.Response.ConvertedObjects, succeeded(answer.Response.Result)
}

func succeeded(result metav1.Status) error {
	switch {
	case result.Status == metav1.StatusSuccess:
		return nil
	case result.Message != "":
		return errors.New(result.Message)
	}
	return fmt.Errorf("response.result.status was '%s', not 'Success'", result.Status)
}
