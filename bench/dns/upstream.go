package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// upstreamAddress is where the server for names outside the cluster listens.
	upstreamAddress = "127.0.0.2:1053"
	// existing is the only name that it knows.
	existing = "www.example.com."
	// lifetime is that of its answers, in seconds.
	lifetime = 3600
)

// upstream is the server for names outside the cluster.
type upstream struct {
	conn    net.PacketConn
	serving sync.WaitGroup
}

func startUpstream(ctx context.Context) (*upstream, error) {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", upstreamAddress)
	if err != nil {
		return nil, fmt.Errorf("starting the server for other names: %w", err)
	}
	u := &upstream{conn: conn}
	u.serving.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := answerTo(buffer[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	return u, nil
}

func (u *upstream) end() {
	_ = u.conn.Close()
	u.serving.Wait()
}

// answerTo returns the answer to a question.
func answerTo(question []byte) ([]byte, error) {
	var asked dnsmessage.Message
	if err := asked.Unpack(question); err != nil {
		return nil, err
	}
	if len(asked.Questions) == 0 {
		return nil, errors.New("the message has no question")
	}
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: asked.ID, Response: true, RecursionDesired: asked.RecursionDesired, RecursionAvailable: true},
		Questions: asked.Questions,
	}
	one := asked.Questions[0]
	if one.Name.String() == existing {
		if one.Type == dnsmessage.TypeA {
			answer.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: one.Name, Type: one.Type, Class: one.Class, TTL: lifetime},
				Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}},
			}}
		}
		return answer.Pack()
	}
	answer.RCode = dnsmessage.RCodeNameError
	zone := dnsmessage.MustNewName("example.")
	answer.Authorities = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: zone, Type: dnsmessage.TypeSOA, Class: one.Class, TTL: lifetime},
		Body:   &dnsmessage.SOAResource{NS: zone, MBox: zone, Serial: 1, Refresh: lifetime, Retry: lifetime, Expire: lifetime, MinTTL: lifetime},
	}}
	return answer.Pack()
}
