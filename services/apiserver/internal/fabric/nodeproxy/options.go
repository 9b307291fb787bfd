package nodeproxy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// options are what a client wants of a connection. Admission may refuse and change them. For it they are
// objects, although they have no metadata.
type options interface {
	scheme.Object
	// container returns the name of the container; empty for the only one, or for none.
	container() string
	// query returns the options as a node agent, like a kubelet, understands them.
	query() url.Values
}

func typeOf(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

// execOptions are the options of a command that is to run in a container.
type execOptions struct {
	corev1.PodExecOptions `json:",inline"`
	metav1.Object         `json:"-"`
}

func newExecOptions(query url.Values) (options, error) {
	return &execOptions{Object: &metav1.ObjectMeta{}, PodExecOptions: corev1.PodExecOptions{
		TypeMeta: typeOf("PodExecOptions"), Container: query.Get("container"), Command: query["command"],
		Stdin: isTrue(query, "stdin"), Stdout: isTrue(query, "stdout"), Stderr: isTrue(query, "stderr"), TTY: isTrue(query, "tty"),
	}}, nil
}

// DeepCopyObject implements runtime.Object.
func (o *execOptions) DeepCopyObject() runtime.Object {
	return &execOptions{*o.DeepCopy(), &metav1.ObjectMeta{}}
}

// UnmarshalJSON reads what a webhook has changed.
func (o *execOptions) UnmarshalJSON(data []byte) error {
	o.Object = &metav1.ObjectMeta{}
	return json.Unmarshal(data, &o.PodExecOptions)
}

func (o *execOptions) container() string { return o.Container }

func (o *execOptions) query() url.Values {
	query := streamsQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	if len(o.Command) > 0 {
		query["command"] = o.Command
	}
	return query
}

// attachOptions are the options of a connection to a running container.
type attachOptions struct {
	corev1.PodAttachOptions `json:",inline"`
	metav1.Object           `json:"-"`
}

func newAttachOptions(query url.Values) (options, error) {
	return &attachOptions{Object: &metav1.ObjectMeta{}, PodAttachOptions: corev1.PodAttachOptions{
		TypeMeta: typeOf("PodAttachOptions"), Container: query.Get("container"),
		Stdin: isTrue(query, "stdin"), Stdout: isTrue(query, "stdout"), Stderr: isTrue(query, "stderr"), TTY: isTrue(query, "tty"),
	}}, nil
}

// DeepCopyObject implements runtime.Object.
func (o *attachOptions) DeepCopyObject() runtime.Object {
	return &attachOptions{*o.DeepCopy(), &metav1.ObjectMeta{}}
}

// UnmarshalJSON reads what a webhook has changed.
func (o *attachOptions) UnmarshalJSON(data []byte) error {
	o.Object = &metav1.ObjectMeta{}
	return json.Unmarshal(data, &o.PodAttachOptions)
}

func (o *attachOptions) container() string { return o.Container }

func (o *attachOptions) query() url.Values { return streamsQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY) }

// portForwardOptions are the options of a connection to ports of a pod.
type portForwardOptions struct {
	corev1.PodPortForwardOptions `json:",inline"`
	metav1.Object                `json:"-"`
}

func newPortForwardOptions(query url.Values) (options, error) {
	o := &portForwardOptions{
		Object: &metav1.ObjectMeta{}, PodPortForwardOptions: corev1.PodPortForwardOptions{TypeMeta: typeOf("PodPortForwardOptions")},
	}
	for _, port := range query["ports"] {
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("reading ports: %q is not a number", port))
		}
		o.Ports = append(o.Ports, int32(number))
	}
	return o, nil
}

// DeepCopyObject implements runtime.Object.
func (o *portForwardOptions) DeepCopyObject() runtime.Object {
	return &portForwardOptions{*o.DeepCopy(), &metav1.ObjectMeta{}}
}

// UnmarshalJSON reads what a webhook has changed.
func (o *portForwardOptions) UnmarshalJSON(data []byte) error {
	o.Object = &metav1.ObjectMeta{}
	return json.Unmarshal(data, &o.PodPortForwardOptions)
}

func (o *portForwardOptions) container() string { return "" }

func (o *portForwardOptions) query() url.Values {
	if len(o.Ports) == 0 {
		return url.Values{}
	}
	ports := make([]string, len(o.Ports))
	for i, port := range o.Ports {
		ports[i] = strconv.FormatInt(int64(port), 10)
	}
	return url.Values{"port": {strings.Join(ports, ",")}}
}

// proxyOptions are the options of a proxy: the path, which is the only field of all three kinds of them.
type proxyOptions struct {
	metav1.TypeMeta `json:",inline"`
	metav1.Object   `json:"-"`
	Path            string `json:"path,omitempty"`
}

func newProxyOptions(kind, path string) scheme.Object {
	return &proxyOptions{TypeMeta: typeOf(kind), Object: &metav1.ObjectMeta{}, Path: path}
}

// DeepCopyObject implements runtime.Object.
func (o *proxyOptions) DeepCopyObject() runtime.Object {
	return &proxyOptions{o.TypeMeta, &metav1.ObjectMeta{}, o.Path}
}

// UnmarshalJSON reads what a webhook has changed. As in Kubernetes it has no effect.
func (o *proxyOptions) UnmarshalJSON(data []byte) error {
	o.Object = &metav1.ObjectMeta{}
	var read corev1.PodProxyOptions
	err := json.Unmarshal(data, &read)
	o.TypeMeta, o.Path = read.TypeMeta, read.Path
	return err
}

// streamsQuery returns which streams of a process a client wants.
func streamsQuery(stdin, stdout, stderr, tty bool) url.Values {
	query := url.Values{}
	for name, wanted := range map[string]bool{"input": stdin, "output": stdout, "error": stderr, "tty": tty} {
		if wanted {
			query.Set(name, "1")
		}
	}
	return query
}

// isTrue parses a boolean of a query as Kubernetes does. One that is absent is false.
func isTrue(query url.Values, name string) (value bool) {
	if values, given := query[name]; given {
		_ = runtime.Convert_Slice_string_To_bool(&values, &value, nil) // It has no errors.
	}
	return value
}
