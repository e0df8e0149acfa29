// One session with spdy-transport: node client.js URL PLAN, the plan as JSON:
//   {protocol, streams: [{name, headers, send: [text...], repeat, end}], ping}
// Prints one JSON object: what came on each stream, and how each ended.
'use strict'
const net = require('net')
const transport = require('spdy-transport')

const [, , url, planText] = process.argv
const plan = JSON.parse(planText)
const { hostname, port, pathname } = new URL(url)
const out = { received: {}, ended: [], errors: [], pinged: false, protocol: null }

const socket = net.connect(port, hostname, () => {
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\n` +
    `Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${plan.protocol}\r\nContent-Length: 0\r\n\r\n`)
})
let head = Buffer.alloc(0)
socket.on('data', function onHead (chunk) {
  head = Buffer.concat([head, chunk])
  const at = head.indexOf('\r\n\r\n')
  if (at < 0) return
  socket.removeListener('data', onHead)
  socket.pause()
  const lines = head.subarray(0, at).toString().split('\r\n')
  if (!lines[0].includes(' 101 ')) {
    console.log(JSON.stringify({ refused: lines[0] }))
    process.exit(0)
  }
  for (const line of lines) {
    const match = /^x-stream-protocol-version: (.*)$/i.exec(line)
    if (match) out.protocol = match[1]
  }
  const rest = head.subarray(at + 4)
  if (rest.length) socket.unshift(rest)
  speak()
})

function finish () {
  for (const name of Object.keys(out.received)) {
    const data = Buffer.concat(out.received[name])
    out.received[name] = { length: data.length, text: data.subarray(0, 4000).toString() }
  }
  console.log(JSON.stringify(out))
  process.exit(0)
}

function speak () {
  const connection = transport.connection.create(socket, { protocol: 'spdy', isServer: false })
  connection.start(3.1)
  connection.on('error', (problem) => out.errors.push(String(problem)))
  connection.on('close', finish)
  let open = 0
  for (const each of plan.streams) {
    open++
    connection.request({ method: 'POST', host: hostname, path: '/', headers: each.headers }, (problem, stream) => {
      if (problem) { out.errors.push(String(problem)); return }
      out.received[each.name] = []
      stream.on('data', (chunk) => out.received[each.name].push(chunk))
      stream.on('error', (problem) => out.errors.push(`${each.name}: ${problem}`))
      stream.on('end', () => {
        out.ended.push(each.name)
        if (--open === 0 && (!plan.ping || out.pinged)) finish()
      })
      for (const text of each.send || []) {
        for (let i = 0; i < (each.repeat || 1); i++) stream.write(text)
      }
      if (each.end) stream.end()
    })
  }
  if (plan.ping) connection.ping(() => { out.pinged = true })
  setTimeout(() => { out.errors.push('time is over'); finish() }, 20000).unref()
}
