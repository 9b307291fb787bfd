package kinds_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestFill checks that only what is unset gets a value.
func TestFill(t *testing.T) {
	var pointer *int32
	kinds.Fill(&pointer, 1)
	kinds.Fill(&pointer, 2)
	text, number := corev1.Protocol(""), int32(0)
	kinds.FillString(&text, corev1.ProtocolTCP)
	kinds.FillString(&text, corev1.ProtocolUDP)
	kinds.FillNumber(&number, 3)
	kinds.FillNumber(&number, 4)
	if *pointer != 1 || text != corev1.ProtocolTCP || number != 3 {
		t.Errorf("got %d, %s and %d, want 1, TCP and 3", *pointer, text, number)
	}
}
