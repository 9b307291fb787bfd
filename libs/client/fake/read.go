package fake

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func (c *Client) get(call client.Call) (runtime.Object, error) {
	obj, err := c.find(call.Kind, call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	switch call.Subresource {
	case "", "status":
		return obj, nil
	case "scale":
		scale, err := scaleOf(obj)
		if err != nil {
			return nil, err
		}
		return asAnswered(call.Kind, scale)
	default:
		return nil, apierrors.NewMethodNotSupported(call.Kind.GroupResource(), "get of "+call.Subresource)
	}
}

func (c *Client) list(call client.Call) (runtime.Object, error) {
	opts, err := listOptions(call)
	if err != nil {
		return nil, err
	}
	keep, err := newSelection(call.Kind, call.Namespace, opts)
	if err != nil {
		return nil, err
	}
	if asked, err := parseRevision(opts.ResourceVersion); err != nil {
		return nil, err
	} else if asked > c.revision {
		return nil, tooLarge(asked, c.revision)
	}
	revision, after := c.revision, ""
	if opts.Continue != "" {
		if revision, after, err = decodeContinue(opts.Continue); err != nil {
			return nil, err
		}
		if revision < c.compacted {
			return nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
		}
	}
	objects := c.at(call.Kind, revision)
	keys := sortedKeys(objects)
	var items []scheme.Object
	next := ""
	for _, key := range keys {
		if key <= after || !keep.selects(objects[key]) {
			continue
		}
		if opts.Limit > 0 && int64(len(items)) == opts.Limit {
			last := items[len(items)-1]
			next = encodeContinue(revision, keyOf(last.GetNamespace(), last.GetName()))
			break
		}
		items = append(items, objects[key])
	}
	return newList(call.Kind, items, revision, next)
}

// at returns the objects of a kind at a revision that is not compacted.
func (c *Client) at(kind *scheme.Kind, revision int64) map[string]scheme.Object {
	objects := map[string]scheme.Object{}
	maps.Copy(objects, c.objects[kind.GroupResource()])
	for _, e := range slices.Backward(c.history) {
		if e.revision <= revision {
			break
		}
		if e.kind.GroupResource() != kind.GroupResource() {
			continue
		}
		if e.previous == nil {
			delete(objects, e.key)
		} else {
			objects[e.key] = e.previous
		}
	}
	return objects
}

func newList(kind *scheme.Kind, items []scheme.Object, revision int64, next string) (runtime.Object, error) {
	list := kind.NewList()
	slice := reflect.ValueOf(list).Elem().FieldByName("Items")
	slice.Set(reflect.MakeSlice(slice.Type(), 0, len(items)))
	for _, item := range items {
		slice.Set(reflect.Append(slice, reflect.ValueOf(copyOf(item)).Elem()))
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("creating a %T: %w", list, err)
	}
	m.SetResourceVersion(fmt.Sprint(revision))
	m.SetContinue(next)
	return list, nil
}

func sortedKeys(objects map[string]scheme.Object) []string {
	keys := make([]string, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func listOptions(call client.Call) (metav1.ListOptions, error) {
	switch opts := call.Options.(type) {
	case nil:
		return metav1.ListOptions{}, nil
	case *metav1.ListOptions:
		return *opts, nil
	default:
		return metav1.ListOptions{}, apierrors.NewBadRequest(fmt.Sprintf("%T is not an options type of %s", call.Options, call.Verb))
	}
}

func parseRevision(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(s, 10, 64)
	if err != nil || revision < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", s))
	}
	return revision, nil
}

func tooLarge(asked, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

func encodeContinue(revision int64, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%d %s", revision, after)))
}

func decodeContinue(token string) (revision int64, after string, err error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, "", apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	number, after, found := strings.Cut(string(data), " ")
	revision, err = strconv.ParseInt(number, 10, 64)
	if err != nil || !found {
		return 0, "", apierrors.NewBadRequest("continue key is not valid")
	}
	return revision, after, nil
}
