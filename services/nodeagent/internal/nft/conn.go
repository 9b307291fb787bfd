package nft

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// maxAttempts bounds the repetitions of a reading that others' changes interrupt.
const maxAttempts = 10

var (
	errInterrupted = errors.New("the rules changed while they were read")
	errSilent      = errors.New("the kernel did not acknowledge the transaction")
)

// Conn is a connection to nftables of the network namespace in which it was opened. It is not safe
// for concurrent use.
type Conn struct {
	socket *socket
	seq    uint32
	// generation is the kernel's after our last transaction; unseen reports changes by others before
	// that, which MarkSeen acknowledges.
	generation uint32
	unseen     bool
}

// Open connects to the kernel. It needs CAP_NET_ADMIN in the network namespace of the calling thread.
// On systems other than Linux it returns an error.
func Open() (*Conn, error) {
	socket, err := open()
	if err != nil {
		return nil, fmt.Errorf("connecting to nftables: %w", err)
	}
	c := &Conn{socket: socket, unseen: true}
	if c.generation, err = c.readGeneration(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the generation of the rules: %w", err), socket.close())
	}
	return c, nil
}

// Close ends the connection. The rules stay.
func (c *Conn) Close() error { return c.socket.close() }

// Apply makes a change in one transaction: either all of it happens, or nothing and an error.
func (c *Conn) Apply(family ruleset.Family, table string, change *ruleset.Change) error {
	if change.IsEmpty() {
		return nil
	}
	return c.commit(encode(family, table, change))
}

// DeleteChains deletes chains that no rule and no element names.
func (c *Conn) DeleteChains(family ruleset.Family, table string, names []string) error {
	b := newBatch(family, table)
	for _, name := range names {
		b.named(msgDelChain, chainTable, table, chainName, name)
	}
	b.close()
	return c.commit(b)
}

// DeleteTable deletes a table with all its rules. It is not an error if there is none.
func (c *Conn) DeleteTable(family ruleset.Family, table string) error {
	b := newBatch(family, table)
	b.newTable()
	b.named(msgDelTable, tableName, table)
	b.close()
	return c.commit(b)
}

func (c *Conn) commit(b *batch) error {
	if err := c.socket.drain(); err != nil {
		return err
	}
	if err := c.socket.send(b.buf); err != nil {
		return fmt.Errorf("sending a transaction of %d bytes: %w", len(b.buf), err)
	}
	// The last message but one is the one to be acknowledged.
	if err := c.acknowledged(b.seq - 1); err != nil {
		return err
	}
	generation, err := c.readGeneration()
	if err != nil {
		return fmt.Errorf("reading the generation of the rules: %w", err)
	}
	// The kernel leaves out generation 0.
	if next := max(c.generation+1, 1); generation != next {
		c.unseen = true
	}
	c.generation = generation
	return nil
}

// acknowledged reads the answers to a transaction. The kernel has given all of them when sending
// returns.
func (c *Conn) acknowledged(last uint32) error {
	for {
		datagram, err := c.socket.receive(false)
		if err != nil {
			return fmt.Errorf("reading the answer to a transaction: %w", err)
		}
		if datagram == nil {
			return errSilent
		}
		for m := range split(datagram) {
			if m.kind != nlmsgError {
				continue
			}
			if err := answered(m); err != nil {
				return fmt.Errorf("message %d of %d of a transaction: %w", m.seq, last, err)
			}
			if m.seq == last {
				return nil
			}
		}
	}
}

// Unseen reports whether something other than this connection has changed any rules of the kernel
// since the last MarkSeen.
func (c *Conn) Unseen() (bool, error) {
	generation, err := c.readGeneration()
	if err != nil {
		return true, fmt.Errorf("reading the generation of the rules: %w", err)
	}
	return c.unseen || generation != c.generation, nil
}

// Read returns what a table has.
func (c *Conn) Read(family ruleset.Family, table string) (*ruleset.Actual, error) {
	for range maxAttempts {
		actual, err := c.read(family, table)
		if !errors.Is(err, errInterrupted) {
			return actual, err
		}
	}
	return nil, errInterrupted
}

// MarkSeen forgets the changes that others have made so far. The caller calls it before it reads all
// tables that it cares for.
func (c *Conn) MarkSeen() error {
	generation, err := c.readGeneration()
	if err != nil {
		return fmt.Errorf("reading the generation of the rules: %w", err)
	}
	c.generation, c.unseen = generation, false
	return nil
}

func (c *Conn) read(family ruleset.Family, table string) (*ruleset.Actual, error) {
	r := newReader(family, table)
	if err := c.dump(family, msgGetChain, nil, r.chain); err != nil {
		return nil, fmt.Errorf("reading chains: %w", err)
	}
	if !r.actual.Exists {
		return r.actual, nil
	}
	ofTable := func(m *message) { m.text(ruleTable, table) }
	if err := c.dump(family, msgGetRule, ofTable, r.rule); err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	if err := c.dump(family, msgGetSet, ofTable, r.set); err != nil {
		return nil, fmt.Errorf("reading sets: %w", err)
	}
	for _, set := range r.readable() {
		ofSet := func(m *message) { m.text(listTable, table); m.text(listSet, set) }
		if err := c.dump(family, msgGetElement, ofSet, r.elements); err != nil {
			return nil, fmt.Errorf("reading the elements of %s: %w", set, err)
		}
	}
	return r.actual, nil
}

// dump asks for all objects of a kind and calls each with every message of the answer.
func (c *Conn) dump(family ruleset.Family, kind uint16, filter func(*message), each func(received)) error {
	return c.ask(kind, flagDump, netlinkFamily(family), filter, each)
}

func (c *Conn) readGeneration() (uint32, error) {
	var generation uint32
	err := c.ask(msgGetGen, flagAck, 0, nil, func(m received) {
		for k, value := range m.attributes() {
			if m.kind == msgNewGen && k == generationID {
				generation = uint32(number(value))
			}
		}
	})
	return generation, err
}

// ask sends a request and reads its answer to the end.
func (c *Conn) ask(kind, flags uint16, family uint8, filter func(*message), each func(received)) error {
	if err := c.socket.drain(); err != nil {
		return err
	}
	c.seq++
	request := message{seq: c.seq}
	request.begin(kind, flags, family, 0)
	if filter != nil {
		filter(&request)
	}
	request.end()
	c.seq = request.seq
	if err := c.socket.send(request.buf); err != nil {
		return err
	}
	interrupted := false
	for {
		datagram, err := c.socket.receive(true)
		if err != nil {
			return err
		}
		for m := range split(datagram) {
			if m.seq != request.seq {
				continue
			}
			interrupted = interrupted || m.flags&flagInterrupted != 0
			switch m.kind {
			case nlmsgError, nlmsgDone:
				if err := answered(m); err == nil && interrupted {
					return errInterrupted
				} else {
					return err
				}
			default:
				each(m)
			}
		}
	}
}
