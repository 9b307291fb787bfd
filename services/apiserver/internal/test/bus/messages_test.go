package bus_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestMessages checks that a write is published as a watch message over NATS.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	conn := s.OnBus("system:kube-controller-manager")
	messages := make(chan *watchv1.Message, 100)
	sub, err := conn.Subscribe(t.Context(), subject.Resource("", "configmaps"), func(m bus.Message) {
		message := &watchv1.Message{}
		if err := proto.Unmarshal(m.Data, message); err == nil && message.GetName() == "told" {
			messages <- message
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Published(t, conn, "", "configmaps")
	made, err := harness.Typed(t, s.Admin()).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "told"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case message := <-messages:
		if fmt.Sprint(message.GetRevision()) != made.ResourceVersion || message.GetUid() != string(made.UID) {
			t.Errorf("got the message %v", message)
		}
	case <-time.After(harness.Patience):
		t.Fatal("no message arrives")
	}
}
