package watchv1_test

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// TestWireFormat fixes the numbers and types of the message's fields, so that each release can
// decode the messages of the previous one. A field may be added to the end of the recorded bytes;
// the recorded bytes may never change.
func TestWireFormat(t *testing.T) {
	const recorded = "0a0b0807110900000000000000" + "1064" + "1801" + "220461707073" + "2a027631" +
		"320a4465706c6f796d656e74" + "3a0b6465706c6f796d656e7473" + "420764656661756c74" + "4a03776562" + "5203756964" +
		"5a017e" + "6063" + "6862" + "7061" + "7860" + "800101" + "8a0103010203" +
		"900101" + "a2010930302d312d322d3031"
	message := &watchv1.Message{
		History: &watchv1.History{Created: 7, Nonce: 9}, Revision: 100, Type: watchv1.Type_TYPE_PUT,
		Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: "default", Name: "web", Uid: "uid",
		Scope: "~", PrevAll: 99, PrevNamespace: 98, PrevScope: 97, Cursor: 96,
		Encoding: watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF, Body: []byte{1, 2, 3},
		Omitted: true, TraceParent: "00-1-2-01",
	}
	data, err := hex.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var read watchv1.Message
	if err := proto.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(message, &read, protocmp.Transform()); diff != "" {
		t.Errorf("the recorded message is decoded differently (-want +got):\n%s", diff)
	}
	if len(read.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("unknown fields: %x", read.ProtoReflect().GetUnknown())
	}
}

// TestReservedFields checks that numbers and names of removed fields stay reserved.
func TestReservedFields(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		number  protoreflect.FieldNumber
		name    protoreflect.Name
	}{{&watchv1.Message{}, 19, "actor"}, {&watchv1.Ask{}, 10, "bearer_token"}} {
		of := c.message.ProtoReflect().Descriptor()
		if !of.ReservedRanges().Has(c.number) || !of.ReservedNames().Has(c.name) {
			t.Errorf("%s does not reserve %s = %d", of.Name(), c.name, c.number)
		}
	}
}
