package fake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

var _ client.Interface = (*Client)(nil)

// Client is an apiserver in memory. It may be used from any goroutine.
type Client struct {
	table *scheme.Table

	mu        sync.Mutex
	revision  int64
	compacted int64
	objects   map[*scheme.Kind]map[string]scheme.Object
	history   []event
	watchers  map[*watcher]struct{}
	fail      func(client.Call) error
	stream    func(client.Call) (io.ReadCloser, error)
	review    func(scheme.Object) error
	calls     []client.Call
}

// event is one committed change. Its objects are never changed once it is in the history.
type event struct {
	revision         int64
	kind             *scheme.Kind
	key              string
	deleted          bool
	object, previous scheme.Object
}

// New makes a client that holds objs as they are given; what they lack of name-independent
// metadata (uid, resourceVersion, creationTimestamp) is filled in. It panics when a kind is
// not in the table or when two objects have the same name, since the test is wrong then.
func New(table *scheme.Table, objs ...scheme.Object) *Client {
	c := &Client{
		table:    table,
		revision: 1,
		objects:  map[*scheme.Kind]map[string]scheme.Object{},
		watchers: map[*watcher]struct{}{},
	}
	c.Load(objs...)
	return c
}

// Load adds or replaces objects as they are given, status, uid and deletionTimestamp
// included, past every rule of the API except those of the revision. Calls does not list it.
func (c *Client) Load(objs ...scheme.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obj := range objs {
		kind := c.table.KindOf(obj)
		if kind == nil || !kind.Stored() {
			panic(fmt.Sprintf("fake: %T is not a kind that is kept", obj))
		}
		copied := copyOf(obj)
		fillMeta(copied)
		c.commit(kind, copied)
	}
}

// Remove deletes an object at once, whatever its finalizers. Calls does not list it.
func (c *Client) Remove(obj scheme.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := c.table.KindOf(obj)
	if current := c.objects[kind][keyOf(obj.GetNamespace(), obj.GetName())]; current != nil {
		c.remove(kind, current)
	}
}

// Fail sets a hook that is asked before every call; the error that it returns is the call's.
// The hook may block, and may itself use the client. Nil removes it.
func (c *Client) Fail(hook func(call client.Call) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = hook
}

// OnStream sets what answers streamed calls, which fail when it is nil.
func (c *Client) OnStream(answer func(call client.Call) (io.ReadCloser, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = answer
}

// OnReview sets what fills in the answer of a virtual kind's question, which fail when it is
// nil. It may not use the client.
func (c *Client) OnReview(answer func(question scheme.Object) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.review = answer
}

// Calls lists every call made so far, failed ones included, in order.
func (c *Client) Calls() []client.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Writes lists the calls made so far that are no get, list or watch.
func (c *Client) Writes() []client.Call {
	return slices.DeleteFunc(c.Calls(), func(call client.Call) bool { return !call.Writes() })
}

// ClearCalls forgets the calls made so far.
func (c *Client) ClearCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Revision is the revision of the last change.
func (c *Client) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// Compact forgets the history: a watch from before now ends with 410 Expired.
func (c *Client) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history, c.compacted = nil, c.revision
}

// CloseWatches ends all open watches, as an apiserver does when it stops.
func (c *Client) CloseWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		w.end()
	}
}

// Table is the set of kinds that the client knows.
func (c *Client) Table() *scheme.Table { return c.table }

// Do carries one call. A write with a fence is refused if the fence does not hold.
func (c *Client) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	err := c.do(ctx, call, into)
	fence.Refused(ctx, err)
	return err
}

func (c *Client) do(ctx context.Context, call client.Call, into runtime.Object) error {
	if err := c.begin(ctx, call); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := fence.From(ctx); ok && call.Writes() {
		if err := c.fenced(f); err != nil {
			return err
		}
	}
	result, err := c.answer(call)
	if err != nil {
		return err
	}
	if call.Revision != nil {
		*call.Revision = c.revision
	}
	return put(result, into)
}

// Stream carries one call to what OnStream has set.
func (c *Client) Stream(ctx context.Context, call client.Call) (io.ReadCloser, error) {
	if err := c.begin(ctx, call); err != nil {
		return nil, err
	}
	c.mu.Lock()
	answer := c.stream
	c.mu.Unlock()
	if answer == nil {
		return nil, apierrors.NewMethodNotSupported(call.Kind.GroupResource(), call.Verb+" of "+call.Subresource)
	}
	return answer(call)
}

// Watch opens a watch. It ends with ctx, or when it is stopped.
func (c *Client) Watch(ctx context.Context, call client.Call) (watch.Interface, error) {
	if err := c.begin(ctx, call); err != nil {
		return nil, err
	}
	return c.watch(ctx, call)
}

func (c *Client) begin(ctx context.Context, call client.Call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("calling the fake API: %w", err)
	}
	recorded := call
	if call.Body != nil {
		recorded.Body = call.Body.DeepCopyObject()
	}
	c.mu.Lock()
	c.calls = append(c.calls, recorded)
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if err := fail(recorded); err != nil {
			return err
		}
	}
	if !call.Kind.Stored() && !call.Kind.Virtual {
		return apierrors.NewMethodNotSupported(call.Kind.GroupResource(), call.Verb)
	}
	return nil
}

// fenced says that the lease of a fence is not held as the fence says.
func (c *Client) fenced(f fence.Fence) error {
	if err := f.Check(); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	lease, ok := c.objects[scheme.For[*coordinationv1.Lease](c.table)][keyOf(f.Namespace, f.Name)].(*coordinationv1.Lease)
	if !ok {
		return fence.Lost(f, nil)
	}
	if held := fence.Of(lease); held != f {
		return fence.Lost(f, &held)
	}
	return nil
}

func (c *Client) answer(call client.Call) (runtime.Object, error) {
	if call.Kind.Virtual {
		return c.answerReview(call)
	}
	switch call.Verb {
	case "get":
		return c.get(call)
	case "list":
		return c.list(call)
	case "create":
		if call.Subresource != "" {
			return c.createSubresource(call)
		}
		return c.create(call)
	case "update":
		return c.update(call)
	case "patch":
		return c.patch(call)
	case "delete":
		return c.delete(call)
	case "deletecollection":
		return c.deleteCollection(call)
	default:
		return nil, apierrors.NewMethodNotSupported(call.Kind.GroupResource(), call.Verb)
	}
}

// find gives the stored object, which must not be changed.
func (c *Client) find(kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	obj := c.objects[kind][keyOf(namespace, name)]
	if obj == nil {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return obj, nil
}

// commit writes obj, which belongs to the store from then on, at a new revision.
func (c *Client) commit(kind *scheme.Kind, obj scheme.Object) {
	c.revision++
	obj.SetResourceVersion(fmt.Sprint(c.revision))
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	key := keyOf(obj.GetNamespace(), obj.GetName())
	if c.objects[kind] == nil {
		c.objects[kind] = map[string]scheme.Object{}
	}
	previous := c.objects[kind][key]
	c.objects[kind][key] = obj
	c.publish(event{revision: c.revision, kind: kind, key: key, object: obj, previous: previous})
}

// remove deletes current at a new revision and gives its last state.
func (c *Client) remove(kind *scheme.Kind, current scheme.Object) scheme.Object {
	c.revision++
	key := keyOf(current.GetNamespace(), current.GetName())
	delete(c.objects[kind], key)
	last := copyOf(current)
	last.SetResourceVersion(fmt.Sprint(c.revision))
	c.publish(event{revision: c.revision, kind: kind, key: key, deleted: true, object: last, previous: current})
	return last
}

func (c *Client) publish(e event) {
	c.history = append(c.history, e)
	for w := range c.watchers {
		w.offer(e)
	}
}

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// copyOf copies an object; the copy of a scheme.Object always is one.
func copyOf(obj scheme.Object) scheme.Object {
	return obj.DeepCopyObject().(scheme.Object)
}

// put copies the answer into what the caller wants filled.
func put(result, into runtime.Object) error {
	if into == nil || reflect.ValueOf(into).IsNil() {
		return nil
	}
	from, to := reflect.ValueOf(result.DeepCopyObject()), reflect.ValueOf(into)
	if from.Type() != to.Type() {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("the fake API answers with a %T, the caller wants a %T", result, into),
		}}
	}
	to.Elem().Set(from.Elem())
	return nil
}
