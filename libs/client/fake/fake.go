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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

var _ client.Interface = (*Client)(nil)

// Client is an in-memory apiserver. It is safe for concurrent use.
type Client struct {
	table *scheme.Table

	mu        sync.Mutex
	revision  int64
	compacted int64
	objects   map[schema.GroupResource]map[string]scheme.Object // by resource, as the kinds of one may be replaced
	history   []event
	watchers  map[*watcher]struct{}
	fail      func(client.Call) error
	stream    func(client.Call) (io.ReadCloser, error)
	document  func(path string) ([]byte, error)
	review    func(scheme.Object) error
	calls     []client.Call
}

// event is one committed change. Its objects are immutable once it is in the history.
type event struct {
	revision         int64
	kind             *scheme.Kind
	key              string
	deleted          bool
	object, previous scheme.Object
}

// New returns a client that stores objs as they are. It assigns their resourceVersions and fills in
// missing uids and creationTimestamps. It panics if a kind is not in the table or not stored, since
// the test is wrong then.
func New(table *scheme.Table, objs ...scheme.Object) *Client {
	c := &Client{
		table:    table,
		revision: 1,
		objects:  map[schema.GroupResource]map[string]scheme.Object{},
		watchers: map[*watcher]struct{}{},
	}
	c.Load(objs...)
	return c
}

// Load adds or replaces objects as they are, including status, uid and deletionTimestamp. It
// bypasses every rule of the API except those of the revision. Calls does not list it.
func (c *Client) Load(objs ...scheme.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obj := range objs {
		kind := c.table.KindOf(obj)
		if kind == nil || !kind.Stored() {
			panic(fmt.Sprintf("fake: %T is not a stored kind", obj))
		}
		copied := copyOf(obj)
		fillMeta(copied)
		c.commit(kind, copied)
	}
}

// Remove deletes an object at once, regardless of its finalizers. Calls does not list it.
func (c *Client) Remove(obj scheme.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := c.table.KindOf(obj)
	if current := c.objects[kind.GroupResource()][keyOf(obj.GetNamespace(), obj.GetName())]; current != nil {
		c.remove(kind, current)
	}
}

// Fail sets a hook that runs before every call; an error that it returns fails the call. The hook
// may block, and may itself use the client. Nil removes it.
func (c *Client) Fail(hook func(call client.Call) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = hook
}

// OnStream sets the function that answers streamed calls; they fail while it is nil.
func (c *Client) OnStream(answer func(call client.Call) (io.ReadCloser, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = answer
}

// OnDocument sets the function that reads documents by their path; they are not found while it is nil.
func (c *Client) OnDocument(answer func(path string) ([]byte, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.document = answer
}

// OnReview sets the function that fills in the answers of virtual kinds; creating one fails while
// it is nil. The function may not use the client.
func (c *Client) OnReview(answer func(question scheme.Object) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.review = answer
}

// Calls returns every call made so far in order, including failed ones.
func (c *Client) Calls() []client.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Writes returns the calls made so far other than get, list and watch.
func (c *Client) Writes() []client.Call {
	return slices.DeleteFunc(c.Calls(), func(call client.Call) bool { return !call.Writes() })
}

// ClearCalls forgets the calls made so far.
func (c *Client) ClearCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Revision returns the revision of the last change.
func (c *Client) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// Compact discards the history: a watch from an earlier revision ends with 410 Expired.
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

// Table returns the kinds that the client knows.
func (c *Client) Table() *scheme.Table { return c.table }

// Do executes one call. A write with a fence is refused if the fence does not hold.
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

// Stream passes one call to the function of OnStream.
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

// Document passes a path to the function of OnDocument.
func (c *Client) Document(ctx context.Context, path string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("calling the fake API: %w", err)
	}
	c.mu.Lock()
	answer := c.document
	c.mu.Unlock()
	if answer == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return answer(path)
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
	if !call.Kind.Stored() && !call.Kind.Virtual && !call.Kind.Custom {
		return apierrors.NewMethodNotSupported(call.Kind.GroupResource(), call.Verb)
	}
	return nil
}

// fenced returns an error if the lease of a fence is not held in the fence's term.
func (c *Client) fenced(f fence.Fence) error {
	if err := f.Check(); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	lease, ok := c.objects[scheme.For[*coordinationv1.Lease](c.table).GroupResource()][keyOf(f.Namespace, f.Name)].(*coordinationv1.Lease)
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

// find returns the stored object, which must not be changed.
func (c *Client) find(kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	obj := c.objects[kind.GroupResource()][keyOf(namespace, name)]
	if obj == nil {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return obj, nil
}

// commit stores obj at a new revision; obj belongs to the store from then on.
func (c *Client) commit(kind *scheme.Kind, obj scheme.Object) {
	c.revision++
	obj.SetResourceVersion(fmt.Sprint(c.revision))
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	key := keyOf(obj.GetNamespace(), obj.GetName())
	if c.objects[kind.GroupResource()] == nil {
		c.objects[kind.GroupResource()] = map[string]scheme.Object{}
	}
	previous := c.objects[kind.GroupResource()][key]
	c.objects[kind.GroupResource()][key] = obj
	c.publish(event{revision: c.revision, kind: kind, key: key, object: obj, previous: previous})
}

// remove deletes current at a new revision and returns its last state.
func (c *Client) remove(kind *scheme.Kind, current scheme.Object) scheme.Object {
	c.revision++
	key := keyOf(current.GetNamespace(), current.GetName())
	delete(c.objects[kind.GroupResource()], key)
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

// put copies the answer into the caller's object.
func put(result, into runtime.Object) error {
	if into == nil || reflect.ValueOf(into).IsNil() {
		return nil
	}
	from, to := reflect.ValueOf(result.DeepCopyObject()), reflect.ValueOf(into)
	if from.Type() != to.Type() {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("the fake API returned a %T, the caller expects a %T", result, into),
		}}
	}
	to.Elem().Set(from.Elem())
	return nil
}
